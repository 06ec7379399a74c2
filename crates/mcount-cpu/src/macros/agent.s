/* What the agent's assembly has on several processors. x86-64 has a routine for each kind of recording, and stubs of its own. */

    .hidden mcount_config

/* There's one entry and one exit, whatever is recorded: Rust looks at what the recorder has asked for. What a kind of recording calls its
 * routines: crates/mcount-tracer/src/trace/agent.rs. */
    .macro ALSO of, names:vararg
    .irp name, \names
    .globl \name
    .hidden \name
    .set \name, \of
    .endr
    .endm
    .macro ONE_FOR_ALL
    ALSO mcount_entry, mcount_entry_untimed, mcount_entry_limited, mcount_entry_only, mcount_entry_only_untimed, mcount_entry_values
    ALSO mcount_pg_entry, mcount_pg_entry_untimed, mcount_pg_entry_limited, mcount_pg_entry_only, mcount_pg_entry_only_untimed, mcount_pg_entry_values
    ALSO mcount_exit, mcount_exit_untimed, mcount_exit_shortest, mcount_exit_waits, mcount_exit_callers, mcount_exit_limited, mcount_pg_return
    .endm

/* These names are for the rest of the agent. */
    .macro HIDDEN names:vararg
    .irp name, \names
    .globl \name
    .hidden \name
    .endr
    .endm

/* What the dynamic linker calls instead of its function for debuggers, where it can go on with Rust by one jump. */
    .macro RENDEZVOUS jump
    BEGIN mcount_rendezvous
    \jump mcount_rendezvous_of
    FINISH mcount_rendezvous
    .endm

/* Room for stubs, in pages of the largest size that's supported. They need no unwind information: nothing returns into them, as a function is called
 * from its routine. */
    .macro STUBS size, page
    .section .stubs, "axR", %nobits
    .globl mcount_stubs
    .hidden mcount_stubs
    .balign \page
mcount_stubs:
    .set mcount_stubs_size, \size
    .skip mcount_stubs_size
    .globl mcount_stubs_end
    .hidden mcount_stubs_end
mcount_stubs_end:
    .globl mcount_rooms_end
    .hidden mcount_rooms_end
mcount_rooms_end:
    .section .note.GNU-stack, "", %progbits
    .text
    .endm
