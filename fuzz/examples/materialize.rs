//! Writes the ELF file that an input of the fuzzer stands for: `materialize INPUT OUTPUT`.

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(input), Some(output)) = (arguments.next(), arguments.next()) else {
        return Err(std::io::Error::other("usage: materialize INPUT OUTPUT"));
    };
    std::fs::write(output, mcount_fuzz::file(&std::fs::read(input)?))
}
