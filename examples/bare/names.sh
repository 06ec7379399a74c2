#!/bin/sh
# names.sh IMAGE: the names of an image's hooks, as assembly. The image is linked twice: without them, and with them.
${MCOUNT:-mcount} list --format csv "$1" | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    {
        printf ".section .names,\"a\"\n.balign 8\n.quad %s, 1f\n", $column["address"]
        printf ".section .names.text,\"aS\"\n1: .asciz \"%s\"\n", $column["symbol"]
    }'
