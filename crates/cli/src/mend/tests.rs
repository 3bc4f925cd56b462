//! Tests of hints.

use super::*;

/// The line that is suggested for one; `U` is an address with a port and a ticket, `T` the ticket.
fn suggested(line: &str) -> Option<String> {
    let ticket = inhaul_identity::Fingerprint::of(b"a").to_string();
    let whole = |line: &str| line.replace("'U'", "'inhaul://dtn1:5001/x#T'").replace("#T", &format!("#{ticket}"));
    let words: Vec<OsString> = shlex::split(&whole(line)).unwrap().into_iter().map(OsString::from).collect();
    let hint = mended(&words)?.to_string().replace(&format!("#{ticket}"), "#T");
    Some(hint.replace("'inhaul://dtn1:5001/x#T'", "'U'"))
}

fn assert_suggested(rows: &[(&str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .map(|(line, expected)| (*line, Some(*expected).filter(|text| !text.is_empty()), suggested(line)))
        .filter(|(_, expected, found)| *expected != found.as_deref())
        .map(|(line, expected, found)| format!("{line}\n  {expected:?}\n  {found:?}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn a_port_is_never_a_path_and_never_lost() {
    assert_suggested(&[
        ("inhaul get 'dtn1:5001:/x#T' .", "inhaul get 'U' ."),
        ("inhaul scp -r me@dtn1:5001:/x .", "inhaul get inhaul://dtn1:5001/x ."),
        ("inhaul put f dtn1:5001:/x", "inhaul put f inhaul://dtn1:5001/x"),
        ("inhaul rsync -av 'dtn1:5001::x#T' .", "inhaul get -v 'U' ."),
        ("inhaul bench -t 0.2 'http://dtn1:5001#T'", "inhaul bench -t 0.2 'inhaul://dtn1:5001#T'"),
        ("inhaul doctor http://dtn1:5001", "inhaul doctor inhaul://dtn1:5001"),
        ("inhaul get -p 5001 'dtn1/x#T' .", "inhaul get 'U' ."),
        ("inhaul get --port=5001 dtn1,dtn2:6/x .", "inhaul get inhaul://dtn1:5001,dtn2:6/x ."),
        ("inhaul ls -p 5001 'dtn1/x#T'", "inhaul ls 'U'"),
        ("inhaul doctor --port 5001 dtn1", "inhaul doctor inhaul://dtn1:5001/"),
        ("inhaul put -P 5001 f dtn1/x", "inhaul put f inhaul://dtn1:5001/x"),
        ("inhaul get -p 99999 'dtn1/x#T' .", ""),
        ("inhaul rsync -a -e 'ssh -p 5001' dtn1:x .", "inhaul get inhaul://dtn1:5001/x ."),
        ("inhaul globus-url-copy -vb -p 4 gsiftp://dtn1/x .", "inhaul get inhaul://dtn1/x ."),
        ("inhaul iperf3 -c 192.0.2.7 -p 5001 -t 0.2", "inhaul bench -t 0.2 192.0.2.7:5001"),
        ("inhaul bench 10.0.0.1 -p 5001", "inhaul bench 10.0.0.1:5001"),
        ("inhaul bench ::1 -p 5001", "inhaul bench '[::1]:5001'"),
        ("inhaul bench --server -p 5001", "inhaul bench --server --listen '[::]:5001'"),
        ("inhaul iperf3 -s -p 5001", "inhaul bench --server --listen '[::]:5001'"),
    ]);
}

#[test]
fn what_does_not_ask_to_overwrite_does_not() {
    assert_suggested(&[
        ("inhaul curl -I 'U'", "inhaul ls 'U'"),
        ("inhaul curl -skI 'U'", "inhaul ls 'U'"),
        ("inhaul get -I 'U'", "inhaul ls 'U'"),
        ("inhaul get --head 'U'", "inhaul ls 'U'"),
        ("inhaul get -I 'U' .", "inhaul get 'U' ."),
        ("inhaul curl -f -O 'U'", "inhaul get 'U' ."),
        ("inhaul get -fsSL 'U' -o b", "inhaul get --quiet 'U' b"),
        ("inhaul get --allow-overwrite=false 'U' .", "inhaul get 'U' ."),
        ("inhaul get --allow-overwrite=true 'U' .", "inhaul get --overwrite 'U' ."),
        ("inhaul get --no-overwrite 'U' .", "inhaul get --existing=keep 'U' ."),
        ("inhaul get --never-overwrite 'U' .", ""),
        ("inhaul rsync -a --force dtn1:x .", "inhaul get inhaul://dtn1/x ."),
        ("inhaul curl -N -O 'U'", "inhaul get 'U' ."),
    ]);
}

#[test]
fn a_checksum_that_was_asked_for_stays() {
    let digits = "0".repeat(32);
    let expected = format!("inhaul get --expect=md5:{digits} 'U' d/");
    for line in ["get --checksum=md5:D 'U' d/", "get --checksum md5=D 'U' d/", "get --md5 D 'U' d/"] {
        assert_eq!(suggested(&format!("inhaul {line}").replace('D', &digits)), Some(expected.clone()), "{line}");
    }
    for line in [
        "inhaul get --checksum=sha256:abc 'U' d/",
        "inhaul get --checksum sha-256=abc 'U' d/",
        "inhaul wget --checksum=md5=00 'U'",
        "inhaul copy --checksum=md5=00 'U' dtn2/x",
    ] {
        assert_eq!(suggested(line), None, "{line}");
        let words: Vec<OsString> = shlex::split(line).unwrap().into_iter().map(OsString::from).collect();
        assert!(faulty_checksum(&words).unwrap().contains("--expect"), "{line}");
    }
}

#[test]
fn values_of_options_become_no_sources() {
    assert_suggested(&[
        ("inhaul get -H 'Authorization: Bearer x' 'U' .", "inhaul get 'U' ."),
        ("inhaul get --header 'X: y' 'U' .", "inhaul get 'U' ."),
        ("inhaul get -H dtn1:x .", "inhaul get inhaul://dtn1/x ."),
        ("inhaul get -u user:pass 'U' .", "inhaul get 'U' ."),
        ("inhaul get -u dtn1:x .", "inhaul get --existing=update inhaul://dtn1/x ."),
        ("inhaul get -x http://127.0.0.1:3128 'U' .", "inhaul get --proxy http://127.0.0.1:3128 'U' ."),
        ("inhaul get -x dtn1:x .", "inhaul get inhaul://dtn1/x ."),
        ("inhaul curl -x http://127.0.0.1:3128 -O 'U'", "inhaul get --proxy=http://127.0.0.1:3128 'U' ."),
        ("inhaul curl -H 'X: y' -A Mozilla/5.0 -e dtn2/y -O 'U'", "inhaul get 'U' ."),
        ("inhaul curl -O dtn1/a -O dtn2/b", "inhaul get dtn1/a dtn2/b ."),
        ("inhaul get --output-dir d1 -O 'U'", "inhaul get 'U' d1/"),
        ("inhaul get -P d2 'U'", "inhaul get 'U' d2/"),
        ("inhaul get -P dtn1:x .", "inhaul get inhaul://dtn1/x ."),
        ("inhaul wget -c -P dw 'U'", "inhaul get 'U' dw/"),
        ("inhaul wget -P /tmp/x/dw 'U'", "inhaul get 'U' /tmp/x/dw/"),
        ("inhaul wget -r -P missing dtn1/x", "inhaul get dtn1/x missing/"),
        ("inhaul wget -r -l 2 -o log -O b dtn1/x", "inhaul get dtn1/x b"),
        ("inhaul aria2c -x 16 -d d -l log -o b 'U'", "inhaul get 'U' d/b"),
        ("inhaul rsync -avhP ./f me@dtn1:in/", "inhaul put -v ./f inhaul://dtn1/in/"),
        ("inhaul rsync -a --log-file log -B 4096 dtn1:x .", "inhaul get inhaul://dtn1/x ."),
        ("inhaul rsync -a --link-dest ../old dtn1:x .", ""),
        ("inhaul scp -i ~/.ssh/key -o A=b -l 8000 -r dtn1:x .", "inhaul get --receive-rate 8M inhaul://dtn1/x ."),
        ("inhaul get -avh dtn1:x .", "inhaul get -v inhaul://dtn1/x ."),
    ]);
}

#[test]
fn other_words_for_what_there_is() {
    let grant = inhaul_identity::Grant { rights: inhaul_identity::Rights::ALL, scope: Default::default() };
    let token = Token::make(&[1; 32], Default::default(), grant, inhaul_identity::UnixTime::MAX, None);
    let token = token.to_secret_text();
    let found = suggested(&format!("inhaul get --token {token} 'U' .")).unwrap();
    assert!(found.contains(&format!("#T.{token}'")), "{found}");
    assert_suggested(&[
        ("inhaul rclone copy dtn1:x . -P --transfers 8", "inhaul get inhaul://dtn1/x ."),
        ("inhaul rclone -P sync ./f dtn1:x", "inhaul put ./f inhaul://dtn1/x"),
        ("inhaul rclone ls dtn1:x", "inhaul ls inhaul://dtn1/x"),
        ("inhaul curl -T f 'U'", "inhaul put f 'U'"),
        ("inhaul curl 'U' -T f", "inhaul put f 'U'"),
        ("inhaul get -T f 'U'", "inhaul put f 'U'"),
        ("inhaul curl --head 'U'", "inhaul ls 'U'"),
        ("inhaul get --token nonsense 'U' .", ""),
        ("inhaul wget -nc -np -nH 'U'", "inhaul get --existing=keep 'U' ."),
        ("inhaul get -np 'U' .", "inhaul get 'U' ."),
        ("inhaul get 'fe80::1%eth0/run7' .", "inhaul get 'inhaul://[fe80::1%eth0]/run7' ."),
        ("inhaul ls //dtn1:5001/x", "inhaul ls inhaul://dtn1:5001/x"),
    ]);
    let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
    assert!(read_otherwise(&words("inhaul get -nc a/x .")).is_some());
    assert!(read_otherwise(&words("inhaul get -n -c a/x .")).is_none());
}
