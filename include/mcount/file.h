/* Finds the call sites of function tracing in ELF files, and makes, reads and checks the table of them.
 *
 * Link with libmcount (pkg-config mcount). There is no global state: a file may be used by several threads at once, and
 * a function that fails fills in a struct of the caller. mcount_file(3) explains. */
#ifndef MCOUNT_FILE_H
#define MCOUNT_FILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why something failed. */
enum mcount_failure_code {
    MCOUNT_FAILED_ARGUMENT = 1,    /* an argument makes no sense */
    MCOUNT_FAILED_SYSTEM = 2,      /* a file can't be read or written */
    MCOUNT_FAILED_NOT_ELF = 3,     /* it's no ELF file, or has no machine code */
    MCOUNT_FAILED_MALFORMED = 4,   /* it's malformed or truncated */
    MCOUNT_FAILED_UNSUPPORTED = 5, /* it's right, but this library doesn't know it */
    MCOUNT_FAILED_WRONG_TYPE = 6   /* an image where an object is needed, or the other way */
};

/* The failure, and its place. */
struct mcount_failure {
    int code;               /* one of enum mcount_failure_code */
    int has_section;        /* whether section_index and section say where */
    int has_offset;         /* whether offset says where */
    uint32_t section_index;
    uint64_t offset;        /* in bytes from the start of the file */
    char section[64];       /* its name, as much as there is room for */
    char text[256];         /* for people, in one line */
};

/* The kinds of struct mcount_site. */
enum mcount_kind {
    MCOUNT_KIND_NONE = 0,      /* an entry of a table that leads to no site */
    MCOUNT_KIND_CALL = 1,      /* a call of the hook symbol */
    MCOUNT_KIND_NOP = 2,       /* a NOP in place of such a call */
    MCOUNT_KIND_PATCHABLE = 3, /* an area of NOPs from -fpatchable-function-entry */
    MCOUNT_KIND_LITERAL = 4,   /* the hook's address in a literal pool */
    MCOUNT_KIND_SLED = 5,      /* the sled of LLVM's XRay at the entry of a function */
    MCOUNT_KIND_EXIT_SLED = 6, /* in a list: the sled at a return or a tail call */
    MCOUNT_KIND_EVENT_SLED = 7 /* in a list: the sled of an event */
};

#define MCOUNT_SITE_RECORDED 1u    /* it's in the table */
#define MCOUNT_SITE_EXCLUDED 2u    /* the policy excludes it */
#define MCOUNT_SITE_STALE 4u       /* no function covers it */
#define MCOUNT_SITE_HAS_OFFSET 8u  /* section_index, section and offset say where it is */
#define MCOUNT_SITE_HAS_ADDRESS 16u

/* A call site, or an entry of a table. Texts may be null; they stay as long as the list. */
struct mcount_site {
    const char *section;
    const char *symbol;    /* the function that it's in */
    const char *hook;      /* the hook symbol that is called */
    uint64_t offset;       /* of the place that is recorded, in bytes from the start of the section */
    uint64_t address;      /* the same in a linked file */
    int64_t symbol_offset; /* how far that is from the symbol's value, in bytes */
    uint64_t size;         /* how many bytes become NOPs, or are NOPs */
    uint32_t section_index;
    uint32_t kind;         /* enum mcount_kind */
    uint32_t flags;        /* MCOUNT_SITE_* */
    uint32_t reserved;
};

/* A flaw of a table. mcount check --explain RULE explains it. */
struct mcount_finding {
    const char *rule;
    const char *text;
    const char *section;
    const char *symbol;
    uint64_t offset;
    uint64_t address;
    uint32_t flags; /* MCOUNT_SITE_HAS_* */
    int is_error;   /* otherwise a warning */
};

typedef struct mcount_options mcount_options;
typedef struct mcount_file mcount_file;
typedef struct mcount_sites mcount_sites;
typedef struct mcount_findings mcount_findings;

/* The version of this interface: programs that were built with another one can't use the library. */
#define MCOUNT_FILE_ABI 0u
uint32_t mcount_file_abi(void);

/* Options have the names of the program's: policy, section, exclude-section, exclude-symbol, exclude-file-symbol, hook,
 * nops, table-section, writable, link-order, nop-all, keep-existing-table, split-lists; and start-symbol and
 * end-symbol for mcount_file_late_object(). Switches are "0" or "1". */
mcount_options *mcount_options_new(void);
int mcount_options_set(mcount_options *options, const char *name, const char *value,
                       struct mcount_failure *failure);
void mcount_options_free(mcount_options *options);

/* Opens a file, or a copy of bytes. The options may be null, and may be freed afterwards. Null if it fails. */
mcount_file *mcount_file_open(const char *path, const mcount_options *options,
                              struct mcount_failure *failure);
mcount_file *mcount_file_from_memory(const void *bytes, size_t size, const mcount_options *options,
                                     struct mcount_failure *failure);
void mcount_file_close(mcount_file *file);

const char *mcount_file_machine(const mcount_file *file);
int mcount_file_bits(const mcount_file *file);
int mcount_file_is_big_endian(const mcount_file *file);
int mcount_file_is_image(const mcount_file *file);

/* The call sites in the code, in order; and the entries of the tables, in theirs. Null if it fails. */
mcount_sites *mcount_file_sites(const mcount_file *file, struct mcount_failure *failure);
mcount_sites *mcount_file_table(const mcount_file *file, struct mcount_failure *failure);
size_t mcount_sites_count(const mcount_sites *sites);
const struct mcount_site *mcount_sites_at(const mcount_sites *sites, size_t number);
void mcount_sites_free(mcount_sites *sites);

/* The table compared with the code. Null if it fails. */
mcount_findings *mcount_file_check(const mcount_file *file, struct mcount_failure *failure);
size_t mcount_findings_count(const mcount_findings *findings);
const struct mcount_finding *mcount_findings_at(const mcount_findings *findings, size_t number);
void mcount_findings_free(mcount_findings *findings);

/* The object with the right table: 1 and its bytes, 0 if it has that table already, -1 if it fails. */
int mcount_file_record(const mcount_file *file, void **bytes, size_t *size,
                       struct mcount_failure *failure);
/* An object that carries the table of a linked file: 1 and its bytes, -1 if it fails. */
int mcount_file_late_object(const mcount_file *file, void **bytes, size_t *size,
                            struct mcount_failure *failure);
void mcount_free(void *bytes, size_t size);

/* Records a file in place, whole or not at all: 1 if it was changed, 0 if not, -1 if it fails. */
int mcount_record_in_place(const char *path, const mcount_options *options,
                           struct mcount_failure *failure);

#ifdef __cplusplus
}
#endif

#endif
