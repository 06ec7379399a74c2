/* Entries that no recorder made, for the oracle to reject. */
        .section __mcount_loc, "aw"
#if __SIZEOF_POINTER__ == 8
        .8byte  ENTRIES
#else
        .4byte  ENTRIES
#endif
        .section .note.GNU-stack, ""
