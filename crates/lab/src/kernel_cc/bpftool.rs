//! Runs bpftool, and reads its answers.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use serde_json::Value;

use super::control::CONTROLS;
use super::error::KernelCcError;

/// Where the kernel tells its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Where programs for root are, which the search path of others leaves out.
const ROOTS_PROGRAMS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// How many lines of a tool's output are shown.
const LINES_SHOWN: usize = 15;

/// bpftool, which may be used.
#[derive(Debug)]
pub(super) struct Bpftool {
    program: PathBuf,
}

/// A map of the kernel, as `bpftool map list` has it.
#[derive(Debug, Deserialize)]
struct Map {
    id: u32,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    /// The types of the object that it came with: maps of one object share them.
    #[serde(default)]
    btf_id: u32,
}

impl Bpftool {
    /// Finds it, and whether the kernel lets us.
    pub(super) fn find() -> Result<Self, KernelCcError> {
        let bpftool = Self { program: find_program("bpftool").ok_or(KernelCcError::NoBpftool)? };
        bpftool.maps().map(|_| bpftool)
    }

    /// The kernel's types as a C header (`vmlinux.h`).
    pub(super) fn types(&self) -> Result<Vec<u8>, KernelCcError> {
        if !Path::new(TYPES).exists() {
            return Err(KernelCcError::NoTypes(TYPES));
        }
        let header = self.run(&["btf", "dump", "file", TYPES, "format", "c"])?;
        if has_struct_ops(&header) { Ok(header) } else { Err(KernelCcError::NoStructOps) }
    }

    /// Puts the congestion control of the object file `object` into the kernel, where it stays.
    pub(super) fn register(&self, object: &Path) -> Result<(), KernelCcError> {
        self.run(&[OsStr::new("struct_ops"), OsStr::new("register"), object.as_os_str()]).map(drop)
    }

    /// Takes the congestion control of the map `id` out of the kernel.
    pub(super) fn unregister(&self, id: u32) -> Result<(), KernelCcError> {
        self.run(&["struct_ops", "unregister", "id", &id.to_string()]).map(drop)
    }

    /// The maps of all our congestion controls that are registered, or are still used by a socket.
    pub(super) fn registrations(&self) -> Result<Vec<u32>, KernelCcError> {
        Ok(self.maps()?.iter().filter(|map| map.is_ours()).map(|map| map.id).collect())
    }

    /// FHSTCP's c, if it is loaded: a constant of its program.
    pub(super) fn fair_factor(&self) -> Result<Option<u32>, KernelCcError> {
        let maps = self.maps()?;
        let Some(constants) = constants_of(&maps, "inhaul_fhstcp") else { return Ok(None) };
        let answer = self.run(&["-j", "map", "dump", "id", &constants.to_string()])?;
        let dump: Value = parse("map dump", &answer)?;
        Ok(constant(&dump, "fair_factor_per_s"))
    }

    fn maps(&self) -> Result<Vec<Map>, KernelCcError> {
        parse("map list", &self.run(&["-j", "map", "list"])?)
    }

    fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Vec<u8>, KernelCcError> {
        run(Command::new(&self.program).args(arguments))
    }
}

impl Map {
    fn is_ours(&self) -> bool {
        self.kind == "struct_ops" && CONTROLS.iter().any(|control| control.name == self.name)
    }
}

/// The map that holds the constants of the object that the newest registration named `name` came with.
fn constants_of(maps: &[Map], name: &str) -> Option<u32> {
    let registration = maps.iter().filter(|map| map.is_ours() && map.name == name).max_by_key(|map| map.id)?;
    let of_it = |map: &&Map| map.btf_id == registration.btf_id && map.name.ends_with(".rodata");
    maps.iter().find(of_it).map(|map| map.id)
}

/// The constant `name` of a dump of such a map: `[{"formatted": {"value": {".rodata": [{NAME: VALUE}, ...]}}}]`.
fn constant(dump: &Value, name: &str) -> Option<u32> {
    let constants = dump.pointer("/0/formatted/value/.rodata")?.as_array()?;
    let value = constants.iter().find_map(|constant| constant.get(name))?;
    u32::try_from(value.as_u64()?).ok()
}

/// Whether a kernel of these types takes congestion controls.
fn has_struct_ops(header: &[u8]) -> bool {
    let wanted = b"struct bpf_struct_ops_tcp_congestion_ops {";
    header.windows(wanted.len()).any(|window| window == wanted)
}

fn parse<T: for<'a> Deserialize<'a>>(what: &'static str, answer: &[u8]) -> Result<T, KernelCcError> {
    serde_json::from_slice(answer).map_err(|source| KernelCcError::Answer { what, source })
}

/// A program of this host, by name.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ROOTS_PROGRAMS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Runs a tool to its end, and returns its output.
pub(super) fn run(command: &mut Command) -> Result<Vec<u8>, KernelCcError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| KernelCcError::System { what: "cannot start a tool", source })?;
    if output.status.success() { Ok(output.stdout) } else { Err(refusal(&said_to(command), &output)) }
}

/// A command as one reads it.
fn said_to(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The meaning of a tool's failure.
fn refusal(what: &str, output: &Output) -> KernelCcError {
    // With -j bpftool reports errors on standard output.
    let said = [&output.stderr[..], &output.stdout[..]].map(|text| String::from_utf8_lossy(text).trim().to_owned());
    let said = said.join("\n").trim().to_owned();
    if said.contains("Operation not permitted") {
        return KernelCcError::NotPermitted(format!("{what}: Operation not permitted"));
    }
    if said.contains("bpf/bpf_helpers.h") {
        return KernelCcError::NoHeaders;
    }
    let lines: Vec<&str> = said.lines().collect();
    let said = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
    KernelCcError::Tool { what: what.to_owned(), said }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    /// `bpftool -j map list` of version 7.1 on Linux 6.18, with c loaded twice: a socket still uses the first.
    const MAPS: &str = r#"[
        {"id":38,"type":"array","name":"highspee.rodata","flags":1152,"bytes_key":4,"bytes_value":576,"max_entries":1,"frozen":1,"btf_id":49},
        {"id":39,"type":"struct_ops","name":"inhaul_hstcp","flags":0,"bytes_key":4,"bytes_value":256,"max_entries":1,"frozen":0,"btf_id":49},
        {"id":44,"type":"array","name":"fhstcp.rodata","flags":1152,"bytes_key":4,"bytes_value":580,"max_entries":1,"frozen":1,"btf_id":67},
        {"id":45,"type":"struct_ops","name":"inhaul_fhstcp","flags":0,"bytes_key":4,"bytes_value":256,"max_entries":1,"frozen":0,"btf_id":67},
        {"id":50,"type":"array","name":"fhstcp.rodata","flags":1152,"bytes_key":4,"bytes_value":580,"max_entries":1,"frozen":1,"btf_id":71},
        {"id":51,"type":"struct_ops","name":"inhaul_fhstcp","flags":0,"bytes_key":4,"bytes_value":256,"max_entries":1,"frozen":0,"btf_id":71},
        {"id":52,"type":"struct_ops","name":"bpf_cubic","flags":0,"bytes_key":4,"bytes_value":256,"max_entries":1,"frozen":0,"btf_id":72},
        {"id":53,"type":"hash","flags":0,"bytes_key":4,"bytes_value":8,"max_entries":1}]"#;

    fn output(stdout: &str, stderr: &str) -> Output {
        Output { status: ExitStatus::from_raw(255 << 8), stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn maps_are_ours_by_type_and_name() {
        let maps: Vec<Map> = parse("map list", MAPS.as_bytes()).unwrap();
        let ours: Vec<u32> = maps.iter().filter(|map| map.is_ours()).map(|map| map.id).collect();
        assert_eq!(ours, [39, 45, 51]);
        assert!(matches!(parse::<Vec<Map>>("map list", b"nothing"), Err(KernelCcError::Answer { .. })));
    }

    #[test]
    fn constants_are_those_of_the_newest_registration() {
        let maps: Vec<Map> = parse("map list", MAPS.as_bytes()).unwrap();
        assert_eq!(constants_of(&maps, "inhaul_fhstcp"), Some(50));
        assert_eq!(constants_of(&maps, "inhaul_stcp"), None);
    }

    #[test]
    fn constant_is_found_by_name() {
        let dump = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let rodata = r#"[{"key":["0x00"],"value":["0x0a"],"formatted":{"value":{".rodata":[{"fair_factor_per_s":10},{"ROWS":[1]}]}}}]"#;
        assert_eq!(constant(&dump(rodata), "fair_factor_per_s"), Some(10));
        assert_eq!(constant(&dump(rodata), "other"), None);
        for broken in ["[]", "{}", r#"[{"formatted":{"value":{".rodata":[{"fair_factor_per_s":-1}]}}}]"#] {
            assert_eq!(constant(&dump(broken), "fair_factor_per_s"), None, "{broken}");
        }
    }

    #[test]
    fn has_struct_ops_looks_for_the_type() {
        assert!(has_struct_ops(b"};\n\nstruct bpf_struct_ops_tcp_congestion_ops {\n"));
        assert!(!has_struct_ops(b"struct tcp_congestion_ops {\n"));
        assert!(!has_struct_ops(b""));
    }

    #[test]
    fn refusal_tells_causes_apart() {
        let error =
            refusal("bpftool -j map list", &output(r#"[{"error":"can't get next map: Operation not permitted"}]"#, ""));
        assert!(matches!(error, KernelCcError::NotPermitted(_)) && error.is_refusal());
        assert!(error.to_string().contains("sudo"), "{error}");
        let error = refusal("clang", &output("", "control.h:13:10: fatal error: 'bpf/bpf_helpers.h' file not found"));
        assert!(matches!(error, KernelCcError::NoHeaders) && error.is_refusal());
        let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let error = refusal("bpftool struct_ops register a", &output("", &long));
        assert!(!error.is_refusal());
        let text = error.to_string();
        assert!(text.contains("register a failed") && text.ends_with("line 99") && !text.contains("line 84"), "{text}");
    }

    #[test]
    fn run_reports_what_failed_without_its_folder() {
        let error = run(Command::new("/bin/sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().starts_with("sh -c "), "{error}");
        assert!(error.to_string().ends_with("failed: broken"), "{error}");
        assert!(matches!(run(&mut Command::new("/nonexistent/tool")), Err(KernelCcError::System { .. })));
        assert_eq!(run(Command::new("/bin/sh").args(["-c", "printf out"])).unwrap(), b"out");
    }

    #[test]
    fn find_program_looks_through_the_search_path() {
        assert!(find_program("sh").is_some_and(|program| program.is_absolute()));
        assert_eq!(find_program("no-program-has-this-name"), None);
    }
}
