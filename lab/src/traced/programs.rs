//! The programs, how they're built, and the tests that they came with.
//!
//! Data only. In lines of sh, `{cc}`, `{cxx}`, `{flags}` and `{link}` are those of a build, `{downloads}` is the
//! folder of downloads, `{shared}` one that all builds may use, and `{run}` what stands before a program that is
//! counted.

/// A way to build a program with hooks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    pub(crate) name: &'static str,
    pub(crate) cc: &'static str,
    pub(crate) cxx: &'static str,
    pub(crate) flags: &'static str,
    pub(crate) link: &'static str,
}

/// A program of Debian.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// What the table calls it.
    pub(crate) name: &'static str,
    /// Its source package.
    pub(crate) package: &'static str,
    pub(crate) builds: &'static [Build],
    /// Makes it, in a new folder with its sources.
    pub(crate) make: &'static str,
    /// What its own tests are, in a few words.
    pub(crate) about: &'static str,
    /// Runs them, in that folder.
    pub(crate) tests: &'static str,
    /// A sed script that takes from what they print whatever differs between two untraced runs.
    pub(crate) mask: &'static str,
    /// Runs the program so that each run makes the same calls, without children; and that program.
    pub(crate) work: Option<(&'static str, &'static str)>,
}

const PATCHABLE: &str = "-fpatchable-function-entry=5";

const fn gcc(name: &'static str, flags: &'static str, link: &'static str) -> Build {
    Build { name, cc: "gcc", cxx: "g++", flags, link }
}

const fn clang(name: &'static str, flags: &'static str, link: &'static str) -> Build {
    Build { name, cc: "clang", cxx: "clang++", flags, link }
}

const GCC: Build = gcc("gcc, patchable", PATCHABLE, "");
const PG: Build = gcc("gcc, -pg", "-pg", "");
const FENTRY: Build = gcc("gcc, -pg -mfentry", "-pg -mfentry", "");
const CLANG: Build = clang("clang, patchable", PATCHABLE, "");
const STATIC: Build = gcc("gcc, patchable, static", PATCHABLE, "-static");
const MUSL: Build =
    Build { cc: "musl-gcc", ..gcc("musl-gcc, patchable, static", PATCHABLE, "-static") };
const CPP_FENTRY: Build = gcc("g++, -pg -mfentry", "-pg -mfentry", "");
const CPP_CLANG: Build = clang("clang++, patchable", PATCHABLE, "");

/// What stays the same in what a test of sqlite prints.
const SQLITE_MASK: &str =
    "/^Time:/d; /^Memory used/d; /^Page-cache/d; /^Maximum/d; s/[0-9.]* *seconds//";

pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "lua",
        package: "lua5.4",
        builds: &[GCC, PG, FENTRY, CLANG, STATIC, MUSL],
        // Without readline, main.lua fails.
        make: "case '{link}' in *static*) to=linux;; *) to=linux-readline;; esac; \
               make -s -C src $to CC='{cc} -std=gnu99' MYLDFLAGS='{link}' \
               MYCFLAGS='{flags} \"-Dluai_makeseed(L)=42\"' && mkdir tests && \
               { [ -e {downloads}/lua-5.4.4-tests.tar.gz ] || curl -fsSLo {downloads}/lua-5.4.4-tests.tar.gz \
               https://www.lua.org/tests/lua-5.4.4-tests.tar.gz; } && \
               tar xf {downloads}/lua-5.4.4-tests.tar.gz -C tests --strip-components=1 && case $to in linux) ;; *) \
               make -s -C tests/libs LUA_DIR=../../src CC='{cc} -std=gnu99 {flags}';; esac",
        about: "all.lua, _soft (static: and _port)",
        tests: "cd tests && mkfifo in 2>/dev/null; case '{link}' in *static*) port=true;; *) port=false;; esac; \
                ../src/lua -e \"_soft=true _port=$port\" all.lua 0<>in",
        mask: "/time difference/d; s/lua_[A-Za-z0-9]*/F/g; s/[0-9.e+-]*[0-9]/N/g; s/N[KM]/N/g; s/\\.\\.\\.*/../g",
        work: Some((
            "src/lua",
            "{run} src/lua -e 'local t = {} for i = 1, 3e4 do t[i] = (i * 7919) % 10007 end \
             table.sort(t) local n = 0 for i = 1, 3e3 do n = n + select(2, pcall(function(x) \
             if x % 2 == 0 then error(x, 0) end return x end, i)) end \
             local s = string.rep(\"ab \", 1000):gsub(\"a\", \"c\") \
             local c = coroutine.wrap(function() for i = 1, 3e3 do coroutine.yield(i) end end) \
             for i = 1, 3e3 do n = n + c() end print(#t, n, #s)'",
        )),
    },
    Program {
        name: "sqlite3, shell",
        package: "sqlite3",
        builds: &[GCC, PG, FENTRY, CLANG, STATIC],
        make: "{ [ -e {shared}/shell.c ] || { mkdir -p b {shared} && cd b && ../configure -q >/dev/null && \
               make -s sqlite3.c shell.c >/dev/null && cp sqlite3.c sqlite3.h shell.c {shared}/ && cd ..; }; } && \
               {cc} -O1 {flags} -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_RTREE -I{shared} {shared}/shell.c \
               {shared}/sqlite3.c -o sqlite3 {link} -lpthread -ldl -lm",
        about: "a script of SQL",
        tests: "printf '%s' \"$WORK\" | ./sqlite3",
        mask: "",
        work: Some(("sqlite3", "printf '%s' \"$WORK\" | {run} ./sqlite3")),
    },
    Program {
        name: "sqlite3, testfixture",
        package: "sqlite3",
        builds: &[GCC],
        make: "mkdir b && cd b && ../configure -q --enable-fts5 CC='{cc}' CFLAGS='-O1 {flags}' >/dev/null && \
               make -s testfixture",
        about: "30 files of its TCL tests",
        tests: "cd b && for name in select1 select4 select9 join join2 where index insert update delete expr func \
                trigger1 trigger2 view table trans savepoint fkey2 collate1 cast date blob minmax sort subquery \
                window1 with1 json101 fts3aa; do rm -rf test.db* testdir && ./testfixture ../test/$name.test; done",
        mask: SQLITE_MASK,
        work: None,
    },
    Program {
        name: "dash",
        package: "dash",
        builds: &[GCC, CLANG, STATIC],
        make: "mkdir b && cd b && ../configure CC='{cc}' CFLAGS='-O2 {flags}' LDFLAGS='{link}' >/dev/null && make -s",
        about: "runs its own configure",
        tests: "rm -rf t && mkdir t && cd t && export CONFIG_SHELL=$PWD/../b/src/dash && $CONFIG_SHELL ../configure && \
                cksum config.h",
        mask: "",
        work: Some((
            "b/src/dash",
            "{run} b/src/dash -c 'fib() { [ $1 -lt 2 ] && r=$1 && return; local a; fib $(($1 - 1)); a=$r; fib $(($1 - 2)); \
             r=$(($r + a)); }; fib 12; echo $r; for i in src/*; do case $i in *.c|src/m*) echo ${i%.*}; esac; done; \
             trap \"echo bye\" EXIT; eval \"x=\\${PATH:+set}\"; echo $x; read -r line <configure; echo \"$line\"'",
        )),
    },
    Program {
        name: "gawk",
        package: "gawk",
        builds: &[GCC, FENTRY],
        make: "./configure --disable-extensions --disable-nls CC='{cc}' CFLAGS='-O1 {flags}' LDFLAGS='{link}' \
               >/dev/null && { make -s -k >/dev/null 2>&1; [ -e gawk ]; }",
        about: "make check",
        tests: "make -s -k check",
        mask: "/^make/d; s/[0-9][0-9]*:[0-9:.]*//g",
        work: Some((
            "gawk",
            "{run} ./gawk '{ for (i = 1; i <= NF; i++) n[$i]++; gsub(/[aeiou]/, \"_\"); m += length($0) } \
             END { k = asorti(n, s); print k, m, s[1], sprintf(\"%.3f\", m / k) }' NEWS builtin.c",
        )),
    },
    Program {
        name: "make",
        package: "make-dfsg",
        builds: &[GCC, PG],
        make: "autoreconf -fi >/dev/null 2>autoreconf.log || { tail -1 autoreconf.log >&2; false; } && ./configure --disable-nls \
               CC='{cc}' CFLAGS='-O1 {flags}' LDFLAGS='{link}' >/dev/null && make -s",
        about: "run_make_tests.pl",
        tests: "cd tests && perl run_make_tests.pl -make ../make",
        mask: "/[0-9]:[0-9]/d",
        work: Some(("make", "{run} ./make -n -B -r MAKE=true")),
    },
    Program {
        name: "busybox",
        package: "busybox",
        builds: &[STATIC],
        make: "make -s defconfig >/dev/null && sed -i 's/.*CONFIG_STATIC[ =].*/CONFIG_STATIC=y/; s/^CONFIG_TC=y/# off/' \
               .config && yes '' | make -s oldconfig >/dev/null && make -s CC='{cc}' EXTRA_CFLAGS='{flags}' \
               SKIP_STRIP=y busybox 2>&1 | tail -5; [ -e busybox ]",
        about: "testsuite/runtest, without bc",
        // Traced, bc computes for minutes.
        tests: "cd testsuite && rm -rf bc* && ./runtest",
        mask: "",
        work: None,
    },
    Program {
        name: "ninja (C++)",
        package: "ninja-build",
        builds: &[CPP_FENTRY, CPP_CLANG],
        make: "CXX='{cxx}' CFLAGS='-O1 -w {flags}' LDFLAGS='{link}' python3 configure.py --bootstrap >/dev/null && \
               ./ninja -j2 ninja_test >/dev/null",
        about: "ninja_test",
        tests: "./ninja_test",
        mask: "s/.*\\r//; s/[0-9.]* *ms//",
        work: Some(("ninja", "{run} ./ninja -n -t graph")),
    },
    Program {
        name: "jsoncpp (C++, exceptions)",
        package: "libjsoncpp",
        builds: &[CPP_FENTRY, CPP_CLANG],
        make: "{cxx} -O1 -w {flags} {link} -Iinclude src/lib_json/*.cpp src/test_lib_json/*.cpp -o jsontest",
        about: "119 tests",
        tests: "./jsontest",
        mask: "",
        work: Some(("jsontest", "{run} ./jsontest")),
    },
    Program {
        name: "zstd (threads)",
        package: "libzstd",
        builds: &[GCC, STATIC],
        make: "make -s -C programs zstd HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 CC='{cc}' CFLAGS='-O2 {flags}' \
               LDFLAGS='{link}' && {cc} -O2 {flags} -Ilib -Ilib/common -Iprograms -DZSTD_MULTITHREAD tests/poolTests.c \
               programs/timefn.c lib/common/*.c -o pooltests {link} -lpthread",
        about: "poolTests; -T4 there and back",
        tests: "./pooltests && cat lib/*/*.c >in && for level in 1 5 12; do programs/zstd -q -T4 -B256K -$level -c in >out && \
                cksum out && programs/zstd -q -d -c out | cmp - in && echo same; done",
        mask: "",
        work: Some((
            "programs/zstd",
            "{run} programs/zstd -q --single-thread -3 -c lib/compress/zstd_compress.c",
        )),
    },
];
