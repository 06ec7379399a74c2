#!/bin/sh
# Links the prebuilt objects into images for the fuzzers to change: fuzz/images/, not in git.
cd "$(dirname "$0")" && mkdir -p images
link() {
    "$1" $2 -e 0 --unresolved-symbols=ignore-all -o "images/$4" "../tests/prebuilt/$3.o" 2>/dev/null
}
for object in x86_64-fentry-table x86_64-nop-table x86_64-patchable-5; do
    link x86_64-linux-gnu-ld "-m elf_x86_64 -q" $object $object
    link x86_64-linux-gnu-ld "-m elf_x86_64" $object $object-plain
    link x86_64-linux-gnu-ld "-m elf_x86_64 -pie -z notext" $object $object-pie
done
for pair in aarch64:aarch64-pg arm:arm-arm s390x:s390x-pg powerpc64le:powerpc64le-pg mips:mips-pg \
    riscv64:riscv64-pg i686:i386-pg sparc64:sparc64-pg hppa:hppa-pg; do
    cpu=${pair%%:*} object=${pair#*:}
    recorded=$(mktemp)
    "${MCOUNT:-mcount}" record --policy all -o "$recorded" "../tests/prebuilt/$object.o" || continue
    for options in "-q" "" "-pie -z notext"; do
        abi=linux-gnu; [ "$cpu" = arm ] && abi=linux-gnueabi
        "$cpu-$abi-ld" $options -e 0 --unresolved-symbols=ignore-all \
            -o "images/$object$(echo "$options" | tr -d ' ')" "$recorded" 2>/dev/null
    done
done
ls images | wc -l
