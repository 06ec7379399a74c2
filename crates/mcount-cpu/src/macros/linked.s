/* Processors that keep the caller's address in a register: what a call and its record have where (`linked.rs`, and `record.rs` of
 * `mcount-inside`), and what pads lead to. A processor says where a frame is when a function has returned (FRAME_AT_RETURN), and where the
 * caller's address is then (CALLER_OF_PAD_IN_LINK), or when KEEP has kept the register in the slot (CALLER_OF_PAD). */

    .set CALL_SP, 80
    .set CALL_PC, 88
    .set CALL_STACK, 96
    .set CALL_RETURN, 104
    .set CALL_TARGET, 128
    .set CALL_ACTION, 156
    .set CALL_RECORD, 160
    .set CALL_AREA, 176
    .set CALL_HANDLER, 184
    .set CALL_LINK, 192
    .set CALL_SIZE, 256

    .set RECORD_BODY, 0
    .set RECORD_ID, 28

    .macro BEGIN_PADS personality
    .cfi_startproc
    .cfi_personality 0x1b, \personality
    FRAME_AT_RETURN
    CALLER_OF_PAD_IN_LINK
    .endm
    .macro END_PADS
    .cfi_endproc
    .endm

    .macro BEGIN_OF_PAD name, personality
    BEGIN \name
    .cfi_personality 0x1b, \personality
    FRAME_AT_RETURN
    CALLER_OF_PAD_IN_LINK
    KEEP 0
    CALLER_OF_PAD
    .endm
