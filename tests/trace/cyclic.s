# A function with parameters whose types lead to themselves, or are larger than anything. No compiler writes such debug information.
    .text
.Ltext:
    .globl f
    .type f, @function
f:
.Lf:
    nop
    nop
    nop
    nop
    nop
    mov $1, %eax
    ret
.Lf_end:
    .size f, .-f

    .globl main
    .type main, @function
main:
    push %rbx
    lea cells(%rip), %rdi
    mov %rdi, %rsi
    mov %rdi, %rdx
    mov %rdi, %rcx
    mov %rdi, %r8
    mov %rdi, %r9
    call f
    xor %eax, %eax
    pop %rbx
    ret
    .size main, .-main
.Ltext_end:

    .section __patchable_function_entries,"awo",@progbits,f
    .balign 8
    .quad .Lf

    .data
    .balign 8
cells:
    .rept 64
    .quad cells
    .endr

    .section .debug_abbrev,"",@progbits
.Labbrev:
    # A unit: producer, language, low_pc, high_pc.
    .uleb128 1, 0x11
    .byte 1
    .uleb128 0x25, 0x08, 0x13, 0x0b, 0x11, 0x01, 0x12, 0x07, 0, 0
    # A function: name, external, low_pc, high_pc.
    .uleb128 2, 0x2e
    .byte 1
    .uleb128 0x03, 0x08, 0x3f, 0x0c, 0x11, 0x01, 0x12, 0x07, 0, 0
    # A parameter: name, type.
    .uleb128 3, 0x05
    .byte 0
    .uleb128 0x03, 0x08, 0x49, 0x13, 0, 0
    # A pointer: type.
    .uleb128 4, 0x0f
    .byte 0
    .uleb128 0x49, 0x13, 0, 0
    # A structure: name, byte_size.
    .uleb128 5, 0x13
    .byte 1
    .uleb128 0x03, 0x08, 0x0b, 0x07, 0, 0
    # A member: name, type, data_member_location.
    .uleb128 6, 0x0d
    .byte 0
    .uleb128 0x03, 0x08, 0x49, 0x13, 0x38, 0x07, 0, 0
    # A typedef: type.
    .uleb128 7, 0x16
    .byte 0
    .uleb128 0x49, 0x13, 0, 0
    # An array: type.
    .uleb128 8, 0x01
    .byte 1
    .uleb128 0x49, 0x13, 0, 0
    # Its bounds: count.
    .uleb128 9, 0x21
    .byte 0
    .uleb128 0x37, 0x07, 0, 0
    # A base type: encoding, byte_size.
    .uleb128 10, 0x24
    .byte 0
    .uleb128 0x03, 0x08, 0x3e, 0x0b, 0x0b, 0x0b, 0, 0
    .byte 0

    .section .debug_info,"",@progbits
.Lunit:
    .long .Lunit_end - .Lunit_start
.Lunit_start:
    .short 4
    .long .Labbrev
    .byte 8
    .uleb128 1
    .string "GNU C17"
    .byte 0x0c
    .quad .Ltext
    .quad .Ltext_end - .Ltext
    .uleb128 2
    .string "f"
    .byte 1
    .quad .Lf
    .quad .Lf_end - .Lf
    .uleb128 3
    .string "a"
    .long .Lself - .Lunit
    .uleb128 3
    .string "b"
    .long .Lto_nested - .Lunit
    .uleb128 3
    .string "c"
    .long .Lto_many - .Lunit
    .uleb128 3
    .string "d"
    .long .Lto_huge - .Lunit
    .uleb128 3
    .string "e"
    .long .Lto_vector - .Lunit
    .uleb128 3
    .string "g"
    .long .Lto_name - .Lunit
    .byte 0
    # A pointer to itself.
.Lself:
    .uleb128 4
    .long .Lself - .Lunit
    # A structure that has itself in it, twice.
.Lto_nested:
    .uleb128 4
    .long .Lnested - .Lunit
.Lnested:
    .uleb128 5
    .string "nested"
    .quad 16
    .uleb128 6
    .string "one"
    .long .Lnested - .Lunit
    .quad 0
    .uleb128 6
    .string "other"
    .long .Lnested - .Lunit
    .quad 0
    .byte 0
    # One with pointers to itself, and fields outside of it.
.Lto_many:
    .uleb128 4
    .long .Lmany - .Lunit
.Lmany:
    .uleb128 5
    .string "many"
    .quad 1 << 60
    .set .Lat, 0
    .rept 64
    .uleb128 6
    .string "p"
    .long .Lto_many - .Lunit
    .quad .Lat
    .set .Lat, .Lat + 1
    .endr
    .uleb128 6
    .string "far"
    .long .Lself - .Lunit
    .quad -8
    .byte 0
    # Arrays of arrays of themselves, and a long one.
.Lto_huge:
    .uleb128 4
    .long .Lhuge - .Lunit
.Lhuge:
    .uleb128 5
    .string "huge"
    .quad 1 << 62
    .uleb128 6
    .string "array"
    .long .Larray - .Lunit
    .quad 0
    .uleb128 6
    .string "longs"
    .long .Llongs - .Lunit
    .quad 8
    .byte 0
.Larray:
    .uleb128 8
    .long .Larray - .Lunit
    .uleb128 9
    .quad 2
    .byte 0
.Llongs:
    .uleb128 8
    .long .Llong - .Lunit
    .uleb128 9
    .quad 1 << 61
    .byte 0
.Llong:
    .uleb128 10
    .string "long"
    .byte 5, 8
    # A vector of vectors of itself.
.Lto_vector:
    .uleb128 4
    .long .Lvector - .Lunit
.Lvector:
    .uleb128 5
    .string "vector<vector>"
    .quad 16
    .uleb128 6
    .string "_M_start"
    .long .Lto_vector - .Lunit
    .quad 0
    .uleb128 6
    .string "_M_finish"
    .long .Lto_vector - .Lunit
    .quad 65528
    .byte 0
    # A name of itself.
.Lto_name:
    .uleb128 4
    .long .Lname - .Lunit
.Lname:
    .uleb128 7
    .long .Lname - .Lunit
    .byte 0
.Lunit_end:

    .section .note.GNU-stack,"",@progbits
