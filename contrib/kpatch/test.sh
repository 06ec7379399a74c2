#!/bin/sh
# test.sh KPATCH DIST: kpatch's unit tests without and with libmcount, in copies of the folder KPATCH. DIST is what
# `cargo xtask dist` filled. Exits with 1 if any object differs, or a test passes only without libmcount.
set -eu
kpatch=$(realpath "$1")
dist=$(realpath "$2")
patch=$(realpath "$(dirname "$0")")/0001-create-diff-object-let-libmcount-find-call-sites.patch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH="$dist/lib/pkgconfig" LD_LIBRARY_PATH="$dist/lib"
for build in plain ours; do
	cp -a "$kpatch" "$work/$build"
	[ $build = plain ] || patch -s -d "$work/$build" -p1 <"$patch"
	make -s -C "$work/$build/kpatch-build" create-diff-object
done
ldd "$work/ours/kpatch-build/create-diff-object" | grep -q libmcount
failed=0
for processor in x86_64 ppc64le aarch64 loongarch64 s390x; do
	for build in plain ours; do
		# Some tests of s390x fail without libmcount, too.
		make -s -k -C "$work/$build/test/unit/objs/$processor" \
			CDO="$work/$build/kpatch-build/create-diff-object" SRC_PATH="$work/$build" \
			>"$work/$build.log" 2>&1 || true
		(cd "$work/$build/test/unit/objs/$processor" && ls ./*.test.out) >"$work/$build.tests"
	done
	made=0 same=0
	for object in "$work/plain/test/unit/objs/$processor"/*.OUTPUT.o; do
		made=$((made + 1))
		if cmp -s "$object" "$work/ours/test/unit/objs/$processor/$(basename "$object")"; then
			same=$((same + 1))
		fi
	done
	tests=$(wc -l <"$work/ours.tests")
	echo "$processor: $made objects, $same the same, $tests tests pass"
	[ $made = $same ] && cmp -s "$work/plain.tests" "$work/ours.tests" || failed=1
done
exit $failed
