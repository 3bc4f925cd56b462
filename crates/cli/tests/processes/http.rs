//! `get` from nginx, where it is installed: plain and over TLS, alone and beside an inhaul server.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{Server, come_true, noise, run};

/// An nginx of a directory, ended when the test is done with it.
struct Nginx {
    child: Child,
    plain: u16,
    tls: u16,
    directory: tempfile::TempDir,
}

impl Nginx {
    /// Serves `directory/www`. `None`: nginx or openssl is not installed.
    fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().to_str().unwrap().to_owned();
        std::fs::create_dir(directory.path().join("www")).unwrap();
        if !certificate(directory.path()) {
            return None;
        }
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (plain, tls) = (free(), free());
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
            .concat();
        let text = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/log;\nevents {{ }}\n\
             http {{ access_log off; sendfile on; {temporary} root {at}/www;\n\
             server {{ listen 127.0.0.1:{plain}; location /whole/ {{ alias {at}/www/; max_ranges 0; }}\n\
             location /moved/ {{ return 302 /file; }} }}\n\
             server {{ listen 127.0.0.1:{tls} ssl; ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem; }} }}\n"
        );
        std::fs::write(directory.path().join("conf"), text).unwrap();
        let mut command = Command::new("nginx");
        command.args(["-p", &at, "-c", &format!("{at}/conf"), "-e", &format!("{at}/log")]);
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            println!("skipped: nginx is not installed");
            return None;
        };
        let nginx = Self { child, plain, tls, directory };
        let listens = || std::net::TcpStream::connect(("127.0.0.1", plain)).is_ok();
        assert!(come_true(Duration::from_secs(10), listens), "nginx does not listen");
        Some(nginx)
    }

    fn offer(&self, name: &str, content: &[u8]) {
        std::fs::write(self.directory.path().join("www").join(name), content).unwrap();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes an authority and a certificate of it for localhost; false if openssl is not installed.
fn certificate(directory: &Path) -> bool {
    let extensions = "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n";
    std::fs::write(directory.join("ext"), extensions).unwrap();
    let steps = [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test-authority",
        "req -newkey rsa:2048 -nodes -keyout key.pem -out csr.pem -subj /CN=localhost",
        "x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out cert.pem",
    ];
    for step in steps {
        match Command::new("openssl").args(step.split(' ')).current_dir(directory).output() {
            Ok(output) => assert!(output.status.success(), "openssl {step}: {output:?}"),
            Err(_) => {
                println!("skipped: openssl is not installed");
                return false;
            }
        }
    }
    true
}

/// Fetches `source` into a new directory: the file, and the report.
fn fetch(source: &str, options: &[&str]) -> (Vec<u8>, serde_json::Value) {
    let into = tempfile::tempdir().unwrap();
    let target = into.path().join("got");
    let outcome = run(&[&["get", source, target.to_str().unwrap(), "--json"], options].concat());
    assert_eq!(outcome.code, Some(0), "{source}: {}", outcome.stderr);
    (std::fs::read(target).unwrap(), outcome.json())
}

#[test]
fn nginx_gives_a_file_by_ranges_whole_and_over_tls() {
    let Some(nginx) = Nginx::start() else { return };
    let content = noise(20_000_003, 7);
    nginx.offer("file", &content);
    let authority = nginx.directory.path().join("ca.pem");
    for path in ["file", "whole/file", "moved/x"] {
        let (got, report) = fetch(&format!("http://127.0.0.1:{}/{path}", nginx.plain), &[]);
        assert!(got == content, "{path}");
        assert_eq!(report["files"][0]["verified"], false, "{report}");
    }
    let sum = format!("blake3:{}", blake3::hash(&content).to_hex());
    let url = format!("https://localhost:{}/file", nginx.tls);
    let (got, report) = fetch(&url, &["--ca", authority.to_str().unwrap(), "--expect", &sum]);
    assert!(got == content);
    assert_eq!(report["files"][0]["verified"], true, "{report}");
    let untrusted = run(&["get", &url, "got", "--retry-for", "0"]);
    assert_ne!(untrusted.code, Some(0), "{}", untrusted.stderr);
    assert!(untrusted.stderr.contains("certificate"), "{}", untrusted.stderr);
}

#[test]
fn a_lying_web_server_beside_an_inhaul_server_lands_nothing_wrong() {
    let Some(nginx) = Nginx::start() else { return };
    let offered = tempfile::tempdir().unwrap();
    let content = noise(40_000_000, 8);
    std::fs::write(offered.path().join("file"), &content).unwrap();
    let mut lie = content.clone();
    lie.iter_mut().step_by(3_000_000).for_each(|byte| *byte ^= 1);
    nginx.offer("file", &lie);
    let server = Server::offer(&offered.path().join("file"));
    let source = format!("inhaul://{}/file,http://127.0.0.1:{}/file", server.address, nginx.plain);
    let (got, report) = fetch(&source, &[]);
    assert!(got == content, "other bytes have landed");
    assert_eq!(report["files"][0]["verified"], true, "{report}");
}

#[test]
fn a_file_beside_a_server_that_never_answers_ends_and_is_not_verified() {
    let directory = tempfile::tempdir().unwrap();
    let content = noise(3_000_000, 9);
    std::fs::write(directory.path().join("a b"), &content).unwrap();
    let source = format!("inhaul://127.0.0.1:1/file,file://{}/a%20b", directory.path().display());
    let (got, report) = fetch(&source, &["--retry-for", "2s"]);
    assert!(got == content);
    assert_eq!(report["sources"][0]["path"]["over"], "file", "{report}");
    assert_eq!(report["files"][0]["verified"], false, "{report}");
}
