use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Parses `line` with these variables; `HOME` is nowhere.
fn with(line: &str, variables: &[(&str, &str)]) -> Result<Cli, String> {
    let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let asked = parse(&arguments, &|name| variables.get(name).map(OsString::from));
    asked.map(|asked| asked.cli).map_err(|error| match error {
        SettingsError::CommandLine(error) => error.to_string(),
        SettingsError::Setting(message) => message,
    })
}

/// The same with a file of that text.
fn with_file(line: &str, text: &str, variables: &[(&str, &str)]) -> Result<Cli, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, text).unwrap();
    with(line, &[variables, &[("INHAUL_CONFIG", file.to_str().unwrap())]].concat())
}

fn get(cli: &Cli) -> &crate::get::Get {
    let crate::args::Command::Get(get) = &cli.command else { panic!("not get") };
    get
}

const GET: &str = "inhaul get inhaul://a/x .";

#[test]
fn order_is_command_line_environment_file_default() {
    let file = "[get]\nmtu = 1300\ntransport = 'cubic'\nrate = '5M'\n";
    let cli =
        with_file(&format!("{GET} --mtu 1500"), file, &[("INHAUL_GET_MTU", "1400"), ("INHAUL_GET_TRANSPORT", "bic")]);
    let cli = cli.unwrap();
    let args = get(&cli);
    assert_eq!((args.fetch.wire.mtu, args.fetch.transport.carrier.transport.as_str()), (Some(1500), "bic"));
    assert_eq!(args.fetch.rate, Some(inhaul_base::Bitrate::from_mbps(5)));
    assert_eq!(get(&with(GET, &[]).unwrap()).fetch.transport.carrier.transport, "gtp");
}

#[test]
fn flags_without_a_value_are_on_or_off() {
    assert!(get(&with(GET, &[("INHAUL_GET_JSON", "yes")]).unwrap()).output.json);
    assert!(!get(&with_file(GET, "[get]\njson = true", &[("INHAUL_GET_JSON", "0")]).unwrap()).output.json);
    assert!(with(GET, &[("INHAUL_GET_JSON", "perhaps")]).unwrap_err().contains("INHAUL_GET_JSON: 'perhaps'"));
    assert_eq!(with_file(GET, "verbose = 2", &[]).unwrap().program.verbose, 2);
    // What needs the flag finds it.
    assert!(with("inhaul bench --listen 127.0.0.1:0", &[("INHAUL_BENCH_SERVER", "true")]).is_ok());
    assert!(with("inhaul bench", &[("INHAUL_BENCH_SERVER", "true")]).is_ok());
}

#[test]
fn what_conflicts_with_the_command_line_gives_way() {
    let cli = with_file(&format!("{GET} --json-stream"), "[get]\njson = true", &[]).unwrap();
    assert!(get(&cli).output.json_stream && !get(&cli).output.json);
    let cli = with(&format!("{GET} -v"), &[("INHAUL_LOG", "error")]).unwrap();
    assert!(cli.program.log.is_none());
    let both = with_file(GET, "[get]\njson = true\njson-stream = true", &[]).unwrap_err();
    assert!(both.contains("line 3: 'json-stream' cannot be set together with 'json'"), "{both}");
    let cli = with_file(GET, "[get]\njson = true", &[("INHAUL_GET_JSON_STREAM", "1")]).unwrap();
    assert!(get(&cli).output.json_stream && !get(&cli).output.json);
}

#[test]
fn a_policy_gives_way_to_what_contradicts_it_on_the_command_line_and_the_other_way_round() {
    let carrier = |line: &str, file: &str, variables: &[(&str, &str)]| {
        let cli = with_file(&format!("{GET}{line}"), file, variables).unwrap();
        let carrier = get(&cli).fetch.transport.carrier.clone();
        (carrier.transport, carrier.policy.map(|policy| format!("{policy:?}")), carrier.set)
    };
    let (low, c) = (Some("Low".to_owned()), ("c".to_owned(), "1".to_owned()));
    let file = "[get]\npolicy = 'low'\n";
    assert_eq!(carrier("", file, &[]).1, low);
    assert_eq!(carrier(" --transport cubic", file, &[]).1, None);
    assert_eq!(carrier(" --transport cubic", "", &[("INHAUL_GET_POLICY", "low")]).1, None);
    assert_eq!(carrier(" --set policy=high", file, &[]).1, None);
    assert_eq!(carrier(" --control paper --receive-rate 1G", file, &[]).1, None);
    assert_eq!(carrier(" --policy low", "[get]\ntransport = 'cubic'\n", &[]).0, "gtp");
    let set = "[get]\nset = ['policy=high', 'c=1']\n";
    assert_eq!(carrier(" --policy low", set, &[]), ("gtp".to_owned(), low.clone(), vec![c]));
    assert_eq!(carrier("", set, &[("INHAUL_GET_POLICY", "low")]).1, low);
    assert_eq!(carrier("", file, &[("INHAUL_GET_TRANSPORT", "cubic")]).1, None);
    let both = with_file(GET, "[get]\npolicy = 'low'\ntransport = 'cubic'", &[]).unwrap_err();
    assert!(both.contains("line 3: 'transport' cannot be set together with 'policy'"), "{both}");
    // A bench that serves or sends has the file of a receiving bench.
    let bench = |line: &str, policy: &str| {
        let cli = with(&format!("inhaul bench {line}"), &[("INHAUL_BENCH_POLICY", policy)]).unwrap();
        let crate::args::Command::Bench(bench) = cli.command else { panic!("not bench") };
        bench.transport.carrier.policy.is_some()
    };
    assert_eq!([bench("a", "low"), bench("--server", "low"), bench("a -R", "low")], [true, false, true]);
    assert_eq!([bench("a -R", "fixed"), bench("a", "fixed")], [false, true]);
}

#[test]
fn lists_are_for_flags_that_may_be_repeated() {
    let cli = with_file(GET, "[get]\nset = ['c=1', 'd=2']", &[]).unwrap();
    assert_eq!(get(&cli).fetch.transport.carrier.set.len(), 2);
    assert_eq!(get(&with(GET, &[("INHAUL_GET_SET", "c=1\nd=2")]).unwrap()).fetch.transport.carrier.set.len(), 2);
    assert!(with_file(GET, "[get]\nmtu = [1, 2]", &[]).unwrap_err().contains("'mtu' is a text or a number"));
}

#[test]
fn file_is_refused_for_what_it_does_not_mean() {
    for (text, words) in [
        ("[get]\nrecieve-rate = '1G'", "line 2: 'inhaul get' has no flag 'recieve-rate'; did you mean 'receive-rate'?"),
        ("[gte]\n", "line 1: 'inhaul' has no command 'gte'; did you mean 'get'?"),
        ("[lab.rnu]\n", "'inhaul lab' has no command 'rnu'; did you mean 'run'?"),
        ("[link.keeper]\n", "'inhaul link' has no command 'keeper'"),
        ("qwzx = 1", "'inhaul' has no flag 'qwzx'; see 'inhaul --help'"),
        ("[get]\nrate = 'fast'", "line 2: --rate: 'fast' is not a rate"),
        ("[bench]\nmemory = 'warm'", "line 2: --memory: 'warm' is none of hot, cold"),
        ("[get]\nreceive-rate = '850'", "line 2: --receive-rate: '850' has no unit"),
        ("[get]\nreceive-rate = 850", "line 2: --receive-rate: '850' has no unit"),
        ("[get]\njson = 'yes'", "'json' is true or false"),
        ("[get\n", "config.toml: "),
    ] {
        let error = with_file(GET, text, &[]).err().unwrap_or_else(|| panic!("{text} was taken"));
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn file_must_exist_when_it_is_named_only() {
    assert!(with(GET, &[("HOME", "/nowhere")]).is_ok());
    assert!(with(GET, &[("INHAUL_CONFIG", "/nowhere/c.toml")]).unwrap_err().contains("/nowhere/c.toml cannot be read"));
    assert!(with(&format!("{GET} --config /nowhere/c.toml"), &[]).is_err());
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".config/inhaul")).unwrap();
    std::fs::write(home.path().join(".config/inhaul/config.toml"), "[get]\nmtu = 1234").unwrap();
    let cli = with(GET, &[("HOME", home.path().to_str().unwrap())]).unwrap();
    assert_eq!(get(&cli).fetch.wire.mtu, Some(1234));
}

/// Something for every kind of argument: texts, numbers, rates, addresses, pairs, sources, pictures, traces,
/// disturbances, names of tokens, fingerprints.
const SAMPLES: [&str; 18] = [
    "word",
    "2",
    "90s",
    "1400",
    "5M",
    "127.0.0.1",
    "127.0.0.1:1",
    "a=1",
    "inhaul://host/path",
    "word.svg",
    "word.json",
    "clean",
    "elastic",
    "gtp",
    "gtp-2004/fig7",
    "3f2a90c1d4e5b687",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
];

/// Whether the command accepts these words, apart from missing arguments.
fn takes(command: &Command, words: &[String]) -> bool {
    let parsed = command.clone().no_binary_name(true).try_get_matches_from(words);
    parsed.map_or_else(|error| !is_about_a_value(error.kind()), |_| true)
}

/// Words for an argument that the command takes after the words before.
fn sample(command: &Command, before: &[String], arg: &Arg) -> Vec<String> {
    let possible = arg.get_possible_values();
    let candidates = possible.iter().map(clap::builder::PossibleValue::get_name).chain(SAMPLES);
    let count = arg.get_value_names().map_or(1, <[_]>::len);
    let flag = arg.get_long().map(|long| format!("--{long}"));
    let mut lines = candidates.map(|text| {
        let values = vec![text.to_owned(); count];
        let words: Vec<String> = flag.iter().cloned().chain(values.clone()).collect();
        (values, [before, &words].concat())
    });
    let fits = lines.find(|(_, line)| takes(command, line));
    fits.unwrap_or_else(|| panic!("no sample fits {}; add one that does", arg.get_id())).0
}

/// The words after a command's name without which it does nothing.
fn least(command: &Command) -> Vec<String> {
    let mut words = Vec::new();
    // A bench needs servers, though it does not say so of the argument alone.
    for arg in command.get_arguments().filter(|arg| arg.is_required_set() || arg.get_id() == "servers") {
        let values = sample(command, &words, arg);
        words.extend(arg.get_long().map(|long| format!("--{long}")));
        words.extend(values);
    }
    words
}

#[test]
fn every_flag_of_every_command_has_a_variable_and_a_key() {
    let top = Cli::command();
    let mut variables = BTreeSet::new();
    for (names, command) in user_commands(&top) {
        for (arg, flag) in flags(command) {
            let name = variable(&names, flag);
            assert!(variables.insert(name.clone()), "{name} is the variable of two flags");
            if command.has_subcommands() && !names.is_empty() {
                panic!("{name}: a command with commands has flags of its own; define their meaning in a file");
            }
            let values = if is_counted(arg) { vec!["1".to_owned()] } else { sample(command, &[], arg) };
            let text = values.join(if matches!(arg.get_action(), ArgAction::Append) { "\n" } else { " " });
            let words = if names.is_empty() { vec!["protocols".to_owned()] } else { least(command) };
            let line = [&["inhaul".to_owned()], &names[..], &words[..]].concat();
            let line: Vec<OsString> = line.into_iter().map(OsString::from).collect();
            let matches = complete(top.clone(), &line, &|asked| (asked == name).then(|| OsString::from(&text)));
            let matches = matches.unwrap_or_else(|error| panic!("{name}={text}: {error:?}"));
            let found = leaf_matches(&matches).get_raw(arg.get_id().as_str()).map(Iterator::count);
            // The server of a bench has no servers, and the command line's values stay.
            let given = line.contains(&OsString::from(format!("--{flag}"))) || name == "INHAUL_BENCH_SERVER";
            assert!(given || found >= Some(1), "{name}={text}");
        }
    }
}

#[test]
fn rates_want_a_unit_in_variables_too() {
    let error = with(GET, &[("INHAUL_GET_RECEIVE_RATE", "850")]).unwrap_err();
    assert!(error.starts_with("variable INHAUL_GET_RECEIVE_RATE: --receive-rate: '850' has no unit"), "{error}");
}

#[test]
fn json_is_asked_for_on_the_command_line_in_the_environment_or_in_the_file() {
    let wants = |line: &str, variables: &[(&str, &str)]| {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        wants_json(&arguments, &|name| variables.get(name).map(OsString::from))
    };
    for line in
        ["inhaul get --nonsense --json", "inhaul get --json-stream a", "inhaul bench -P 0 -RJ", "inhaul lab rnu --json"]
    {
        assert!(wants(line, &[]), "{line}");
    }
    for line in ["inhaul get --nonsense", "inhaul get -- --json", "inhaul get -J"] {
        assert!(!wants(line, &[]), "{line}");
    }
    assert!(wants("inhaul get --nonsense", &[("INHAUL_GET_JSON", "1")]));
    assert!(!wants("inhaul put --nonsense", &[("INHAUL_GET_JSON", "1")]));
    assert!(wants("inhaul lab run --nonsense", &[("INHAUL_LAB_RUN_JSON", "1")]));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    std::fs::write(&file, "[get]\njson-stream = true").unwrap();
    assert!(wants("inhaul get --nonsense", &[("INHAUL_CONFIG", file.to_str().unwrap())]));
}

#[test]
fn unknown_variables_are_named_with_what_may_be_meant() {
    let names = ["HOME", "INHAUL_CONFIG", "INHAUL_GET_RATE", "INHAUL_GET_RECIEVE_RATE"].map(str::to_owned);
    let said = unknown_variables(names.into_iter());
    assert_eq!(said, ["the variable INHAUL_GET_RECIEVE_RATE is for no flag; is INHAUL_GET_RECEIVE_RATE meant?"]);
    let said = |name: &str| unknown_variables([name.to_owned()].into_iter()).swap_remove(0);
    let policy = said("INHAUL_POLICY");
    assert!(policy.ends_with("write the command before the flag, as in INHAUL_GET_POLICY"), "{policy}");
    assert!(said("INHAUL_ACCEPT_PUTS").ends_with("as in INHAUL_SERVE_ACCEPT_PUTS"), "{}", said("INHAUL_ACCEPT_PUTS"));
}

#[test]
fn any_file_is_read_or_refused() {
    let setting = |name: &str, default: u64| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let seed = setting("INHAUL_FUZZ_SEED", 1);
    let samples = [
        "verbose = 2\n[get]\nmtu = 1300\ntransport = 'cubic'\nreceive-rate = '850M'\nexclude = ['*.tmp', 'x']\n",
        "log = 'debug'\n[serve]\nlisten = '[::]:4321'\n[lab.run]\nseed = 7\nkeep = 'results'\n[bench]\nserver = true\n",
    ];
    let samples = samples.map(|text| text.as_bytes().to_vec()).to_vec();
    let mut files = inhaul_fuzz::Mutator::new(seed, 0, samples);
    let top = Cli::command();
    let (mut accepted, count) = (0, setting("INHAUL_FUZZ_ITERATIONS", 20_000).div_ceil(20));
    for _ in 0..count {
        let file = files.next_input();
        let Ok(text) = str::from_utf8(&file) else { continue };
        let Ok(settings) = file::parse(&top, Path::new("config.toml"), text) else { continue };
        accepted += u64::from(settings.iter().all(|setting| check(&top, setting).is_ok()));
    }
    assert!(0 < accepted && accepted < count, "{accepted} of {count}");
}
