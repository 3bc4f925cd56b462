//! S3's addresses, `s3://BUCKET/KEY`: a URL is signed for each request (Signature Version 4, in the query), so none
//! expires in mid-transfer. Ranges are not signed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::{digest, hmac};
use jiff::Timestamp;

/// How long a signed URL is valid, in seconds.
const EXPIRES: &str = "3600";
/// The region of a bucket unless another one is given.
const REGION: &str = "us-east-1";
/// A longer file of settings is none of a person's.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The keys of an account.
#[derive(Clone, PartialEq, Eq)]
struct Keys {
    id: String,
    secret: String,
    token: Option<String>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.id)
    }
}

/// An object, and how it is asked for.
#[derive(Debug)]
pub(super) struct S3Object {
    bucket: String,
    key: String,
    /// The server, as `https://HOST[:PORT]`, if it is not Amazon's.
    endpoint: Option<String>,
    /// The server names the right one if it is wrong.
    region: Mutex<String>,
    keys: Option<Keys>,
    requester_pays: bool,
}

/// What environment and files say, by the names of environment variables.
#[derive(Clone, Debug, Default)]
struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Those of this process, and of the profile that it names.
    fn of_process() -> Self {
        let names = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "AWS_ENDPOINT_URL_S3",
            "AWS_ENDPOINT_URL",
            "AWS_REQUEST_PAYER",
        ];
        let set = |name: &str| Some((name.to_owned(), std::env::var(name).ok().filter(|value| !value.is_empty())?));
        let mut settings = Self(names.into_iter().filter_map(set).collect());
        let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned());
        for (variable, file) in [("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")] {
            let named = std::env::var_os(variable).map(PathBuf::from);
            let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".aws").join(file));
            let Some(path) = named.or(home) else { continue };
            if std::fs::metadata(&path).is_ok_and(|found| found.len() <= FILE_BYTES_MAX)
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                settings.add_profile(&text, &profile);
            }
        }
        settings
    }

    /// Adds a file's settings of a profile; earlier ones stay.
    fn add_profile(&mut self, text: &str, profile: &str) {
        let mut is_it = false;
        for line in text.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                is_it = section.trim().trim_start_matches("profile ").trim() == profile;
                continue;
            }
            let Some((name, value)) = line.split_once('=').filter(|_| is_it && !line.starts_with(['#', ';'])) else {
                continue;
            };
            let variable = match name.trim() {
                "aws_access_key_id" => "AWS_ACCESS_KEY_ID",
                "aws_secret_access_key" => "AWS_SECRET_ACCESS_KEY",
                "aws_session_token" => "AWS_SESSION_TOKEN",
                "region" => "AWS_DEFAULT_REGION",
                "endpoint_url" => "AWS_ENDPOINT_URL",
                _ => continue,
            };
            self.0.entry(variable.to_owned()).or_insert_with(|| value.trim().to_owned());
        }
    }

    fn get(&self, name: &str) -> Option<&String> {
        self.0.get(name)
    }
}

impl S3Object {
    /// The object of `s3://BUCKET/KEY`, with the keys and settings of this process.
    pub(super) fn find(url: &str) -> Option<Self> {
        Self::with(url, &Settings::of_process())
    }

    fn with(url: &str, settings: &Settings) -> Option<Self> {
        let (bucket, key) = url.strip_prefix("s3://")?.split_once('/')?;
        let keys = settings.get("AWS_ACCESS_KEY_ID").zip(settings.get("AWS_SECRET_ACCESS_KEY"));
        let keys = keys.map(|(id, secret)| Keys {
            id: id.clone(),
            secret: secret.clone(),
            token: settings.get("AWS_SESSION_TOKEN").cloned(),
        });
        let region = settings.get("AWS_REGION").or_else(|| settings.get("AWS_DEFAULT_REGION"));
        let endpoint = settings.get("AWS_ENDPOINT_URL_S3").or_else(|| settings.get("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        let requester_pays = settings.get("AWS_REQUEST_PAYER").is_some_and(|value| value == "requester");
        let region = Mutex::new(region.map_or(REGION, String::as_str).to_owned());
        Some(Self { bucket: bucket.to_owned(), key: key.to_owned(), endpoint, region, keys, requester_pays })
    }

    /// The bucket is in another region than was thought: false if that is no news.
    pub(super) fn learn_region(&self, region: &str) -> bool {
        let mut known = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        let is_name = !region.is_empty() && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_news = is_name && *known != region;
        if is_news {
            region.clone_into(&mut known);
        }
        is_news
    }

    /// The URL to ask for it now.
    pub(super) fn url(&self, now: Timestamp) -> String {
        let region = self.region.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let key = escaped(&self.key, true);
        // A bucket's name with dots matches no certificate as a host's.
        let (base, path) = match &self.endpoint {
            Some(endpoint) => (endpoint.clone(), format!("/{}/{key}", escaped(&self.bucket, false))),
            None if self.bucket.contains('.') => {
                (format!("https://s3.{region}.amazonaws.com"), format!("/{}/{key}", escaped(&self.bucket, false)))
            }
            None => (format!("https://{}.s3.{region}.amazonaws.com", self.bucket), format!("/{key}")),
        };
        let host = base.split_once("://").map_or(base.as_str(), |(_, host)| host);
        let query = match &self.keys {
            Some(keys) => format!("?{}", signed(keys, (host, &path), &region, (now, EXPIRES), self.requester_pays)),
            None => String::new(),
        };
        format!("{base}{path}{query}")
    }
}

/// The query of a signed request for the object at `path` of `host`, valid from `now` for `expires` seconds.
fn signed(
    keys: &Keys,
    (host, path): (&str, &str),
    region: &str,
    (now, expires): (Timestamp, &str),
    requester_pays: bool,
) -> String {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = &time[..8];
    let scope = format!("{date}/{region}/s3/aws4_request");
    let mut fields = BTreeMap::from([
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256".to_owned()),
        ("X-Amz-Credential", format!("{}/{scope}", keys.id)),
        ("X-Amz-Date", time.clone()),
        ("X-Amz-Expires", expires.to_owned()),
        ("X-Amz-SignedHeaders", "host".to_owned()),
    ]);
    if let Some(token) = &keys.token {
        fields.insert("X-Amz-Security-Token", token.clone());
    }
    if requester_pays {
        fields.insert("x-amz-request-payer", "requester".to_owned());
    }
    let query = |(name, value): (&&str, &String)| format!("{name}={}", escaped(value, false));
    let query = fields.iter().map(query).collect::<Vec<_>>().join("&");
    let canonical = format!("GET\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashed}");
    let first = format!("AWS4{}", keys.secret).into_bytes();
    let key = [date, region, "s3", "aws4_request"].iter().fold(first, |key, part| mac(&key, part.as_bytes()));
    format!("{query}&X-Amz-Signature={}", hex(&mac(&key, text.as_bytes())))
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every byte that S3 wants escaped is, `%` too: a key is named as it is, not as in a URL.
fn escaped(text: &str, is_path: bool) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || is_path && byte == b'/';
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn signed_is_what_amazon_s_documentation_has() {
        // "Authenticating Requests: Using Query Parameters".
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let query = signed(
            &keys,
            ("examplebucket.s3.amazonaws.com", "/test.txt"),
            "us-east-1",
            (at("2013-05-24T00:00:00Z"), "86400"),
            false,
        );
        let expected = "X-Amz-Algorithm=AWS4-HMAC-SHA256\
            &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
            &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
            &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert_eq!(query, expected);
    }

    #[test]
    fn buckets_are_found_by_their_style_and_region() {
        let now = at("2026-11-27T00:00:00Z");
        let url = |url: &str, pairs: &[(&str, &str)]| S3Object::with(url, &settings(pairs)).unwrap().url(now);
        assert_eq!(url("s3://b/k/x y", &[]), "https://b.s3.us-east-1.amazonaws.com/k/x%20y");
        assert_eq!(url("s3://a.b/k", &[("AWS_REGION", "eu-west-1")]), "https://s3.eu-west-1.amazonaws.com/a.b/k");
        let own = [("AWS_ENDPOINT_URL", "http://localhost:9000/")];
        assert_eq!(url("s3://b/k", &own), "http://localhost:9000/b/k");
        let object = S3Object::with("s3://b/k", &settings(&[])).unwrap();
        assert!(object.learn_region("eu-west-1") && !object.learn_region("eu-west-1") && !object.learn_region("e/x"));
        assert!(object.url(now).contains(".eu-west-1."));
        let keys =
            [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hidden"), ("AWS_REQUEST_PAYER", "requester")];
        let object = S3Object::with("s3://b/k", &settings(&keys)).unwrap();
        let url = object.url(now);
        assert!(url.contains("&x-amz-request-payer=requester&X-Amz-Signature=") && !url.contains("hidden"), "{url}");
        assert!(!format!("{object:?}").contains("hidden"));
    }

    #[test]
    fn settings_of_the_environment_come_before_those_of_a_profile() {
        let mut settings = settings(&[("AWS_DEFAULT_REGION", "here")]);
        settings.add_profile(
            "[default]\naws_access_key_id = no\n[profile mine]\n# aws_access_key_id = not\naws_access_key_id=yes\nregion = there\nendpoint_url = http://e\n",
            "mine",
        );
        assert_eq!(settings.get("AWS_ACCESS_KEY_ID").map(String::as_str), Some("yes"));
        assert_eq!(settings.get("AWS_DEFAULT_REGION").map(String::as_str), Some("here"));
        assert_eq!(settings.get("AWS_ENDPOINT_URL").map(String::as_str), Some("http://e"));
    }
}
