//! The programs of `cargo lab languages`.

/// A language, and a program in it.
pub(super) struct Language {
    pub(super) name: &'static str,
    /// The Debian package with what runs it.
    pub(super) package: &'static str,
    /// The name of the file with the program.
    pub(super) file: &'static str,
    pub(super) source: &'static str,
    /// Commands that compile it.
    pub(super) steps: &'static [&'static [&'static str]],
    pub(super) run: &'static [&'static str],
}

/// JavaScript for several machines; `print` is what they call it.
const JAVASCRIPT: &str = "\
let s = 0;
for (let i = 0; i < 300000; i++) { s += i % 3; let o = {a: i}; }
for (let i = 0; i < 20000; i++) JSON.parse('{\"a\":[1,2,3]}');
try { null.x } catch (e) { s++ }
(typeof print == 'function' ? print : console.log)(s);
";

const JAVA: &str = "\
public class Main {
    static int[] made;
    public static void main(String[] arguments) throws Exception {
        long sum = 0;
        for (int i = 0; i < 3000000; i++) { sum += i % 7; if (i % 100 == 0) made = new int[100]; }
        System.out.println(sum);
        try { Object nothing = null; nothing.toString(); }
        catch (NullPointerException error) { System.out.println(\"caught\"); }
        Thread thread = new Thread(() -> System.out.println(\"thread\"));
        thread.start();
        thread.join();
        System.gc();
    }
}
";

const CSHARP: &str = "\
using System;
class Program {
    static object kept;
    static void Main() {
        long sum = 0;
        for (int i = 0; i < 300000; i++) { sum += i; kept = new object[10]; }
        Console.WriteLine(sum);
        try { throw new Exception(\"caught\"); } catch (Exception error) { Console.WriteLine(error.Message); }
        GC.Collect();
    }
}
";

const OCAML: &str = "\
let rec fib n = if n < 2 then 1 else fib (n - 1) + fib (n - 2)
let () =
  let l = ref [] in
  for i = 1 to 200000 do l := string_of_int i :: !l; if i mod 1000 = 0 then l := [] done;
  Gc.full_major ();
  (try failwith \"caught\" with Failure s -> print_endline s);
  print_int (fib 20)
";

const GO: &str = "\
package main

// #include <stdlib.h>
// int twice(int n) { return abs(2 * n); }
import \"C\"
import (\"fmt\"; \"runtime\"; \"sync\")

func deep(n int) int { var a [100]int; a[n%100] = n; if n == 0 { return 0 }; return deep(n-1) + a[n%100] }

func main() {
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() { defer all.Done(); for j := 0; j < 50; j++ { deep(1000) }; runtime.GC() }()
	}
	all.Wait()
	fmt.Println(C.twice(21))
	defer func() { fmt.Println(recover() != nil) }()
	var none map[string]int
	none[\"x\"] = 1
}
";

const RUBY: &str = "\
def fib(n) = n < 2 ? 1 : fib(n - 1) + fib(n - 2)
p fib(20)
begin; raise 'caught'; rescue => e; puts e.message; end
fiber = Fiber.new { Fiber.yield 1; 2 }
p fiber.resume, fiber.resume
Thread.new { p 3 }.join
GC.start
";

const PHP: &str = "\
<?php
function fib($n) { return $n < 2 ? 1 : fib($n - 1) + fib($n - 2); }
echo fib(20), \"\\n\";
$s = 0;
for ($i = 0; $i < 300000; $i++) { $s += $i % 3; }
echo $s, \"\\n\";
try { throw new Exception('caught'); } catch (Exception $e) { echo $e->getMessage(), \"\\n\"; }
gc_collect_cycles();
";

const PYTHON: &str = "\
import gc
s = 0
for i in range(300000): s += i % 3
gc.collect()
try: raise ValueError('caught')
except ValueError as e: print(e, s)
";

const LUA: &str = "\
local s = 0
for i = 1, 1000000 do s = s + i % 7 end
local wrapped = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i) end end)
for i = 1, 5 do s = s + wrapped() end
collectgarbage()
print(s, pcall(error, 'caught'))
";

const LISP: &str = "\
(progn (print (loop for i below 1000 sum i))
       (handler-case (error \"x\") (error () (print :caught)))
       (terpri))
";

/// One that's compiled to nothing, or interpreted.
const fn language(
    name: &'static str,
    package: &'static str,
    [file, source]: [&'static str; 2],
    run: &'static [&'static str],
) -> Language {
    Language { name, package, file, source, steps: &[], run }
}

pub(super) const LANGUAGES: &[Language] = &[
    language("node", "nodejs", ["main.js", JAVASCRIPT], &["node", "main.js"]),
    language("gjs", "gjs", ["main.js", JAVASCRIPT], &["gjs", "main.js"]),
    language(
        "jsc",
        "libjavascriptcoregtk-4.0-bin",
        ["main.js", JAVASCRIPT],
        &["/usr/bin/jsc", "main.js"],
    ),
    Language {
        name: "java",
        package: "openjdk-17-jdk-headless",
        file: "Main.java",
        source: JAVA,
        steps: &[&["javac", "Main.java"]],
        run: &["java", "-cp", ".", "Main"],
    },
    Language {
        name: "mono",
        package: "mono-runtime, mono-mcs",
        file: "main.cs",
        source: CSHARP,
        steps: &[&["mcs", "main.cs"]],
        run: &["mono", "main.exe"],
    },
    Language {
        name: "ocaml",
        package: "ocaml-nox",
        file: "main.ml",
        source: OCAML,
        steps: &[&["ocamlopt", "main.ml", "-o", "main"]],
        run: &["./main"],
    },
    Language {
        name: "go, with C",
        package: "golang-go",
        file: "main.go",
        source: GO,
        steps: &[&["go", "build", "-o", "main", "main.go"]],
        run: &["./main"],
    },
    Language {
        name: "haskell",
        package: "pandoc",
        file: "main.md",
        source: "# A *title*\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        steps: &[],
        run: &["pandoc", "main.md"],
    },
    language("python", "python3", ["main.py", PYTHON], &["python3", "main.py"]),
    language("pypy", "pypy3", ["main.py", PYTHON], &["pypy3", "main.py"]),
    language("ruby", "ruby", ["main.rb", RUBY], &["ruby", "main.rb"]),
    language("ruby, compiling", "ruby", ["main.rb", RUBY], &["ruby", "--yjit", "main.rb"]),
    language("php", "php-cli", ["main.php", PHP], &["php", "main.php"]),
    language(
        "php, compiling",
        "php-cli, php-opcache",
        ["main.php", PHP],
        &["php", "-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=64M", "main.php"],
    ),
    language("lua", "lua5.4", ["main.lua", LUA], &["lua5.4", "main.lua"]),
    language("luajit", "luajit", ["main.lua", LUA], &["luajit", "main.lua"]),
    language(
        "erlang",
        "erlang-base",
        ["main", ""],
        &[
            "erl",
            "-noshell",
            "-eval",
            "io:format(\"~p~n\", [lists:sum(lists:seq(1, 10000))]), halt().",
        ],
    ),
    language("sbcl", "sbcl", ["main.lisp", LISP], &["sbcl", "--script", "main.lisp"]),
    language("clisp", "clisp", ["main.lisp", LISP], &["clisp", "-q", "-norc", "main.lisp"]),
    language("ecl", "ecl", ["main.lisp", LISP], &["ecl", "--norc", "--shell", "main.lisp"]),
    language(
        "racket",
        "racket",
        ["main", ""],
        &[
            "racket",
            "-e",
            "(display (for/sum ([i 100000]) i)) (collect-garbage) (with-handlers ([void (lambda (e) (display 1))]) (error \"x\"))",
        ],
    ),
    language(
        "guile",
        "guile-3.0",
        [
            "main.scm",
            "(display (let loop ((i 0) (s 0)) (if (< i 100000) (loop (+ i 1) (+ s i)) s))) (gc)",
        ],
        &["guile", "--no-auto-compile", "main.scm"],
    ),
    language(
        "prolog",
        "swi-prolog-nox",
        ["main", ""],
        &[
            "swipl",
            "-g",
            "numlist(1, 10000, L), sum_list(L, S), print(S), catch(throw(a), _, print(c)), garbage_collect, halt",
            "-t",
            "halt",
        ],
    ),
    language(
        "r",
        "r-base-core",
        [
            "main.R",
            "x <- 0; for (i in 1:20000) x <- x + i; print(tryCatch(stop(x), error = function(e) 'c')); invisible(gc())",
        ],
        &["Rscript", "main.R"],
    ),
    language(
        "forth",
        "gforth",
        ["main.fs", ": f 0 1000 0 do i + loop . ; f bye"],
        &["gforth", "main.fs"],
    ),
    language(
        "emacs",
        "emacs-nox",
        [
            "main.el",
            "(garbage-collect) (princ (condition-case nil (error \"x\") (error (mapconcat #'number-to-string (number-sequence 1 50) \" \"))))",
        ],
        &["emacs", "--batch", "-l", "main.el"],
    ),
    language(
        "tcl",
        "tcl",
        ["main.tcl", "catch {error x} e; puts $e; puts [expr 1+2]"],
        &["tclsh", "main.tcl"],
    ),
    language(
        "zsh",
        "zsh",
        ["main", ""],
        &["zsh", "-c", "for i in {1..50}; do x=$((x+i)); done; echo $x $(echo sub)"],
    ),
];
