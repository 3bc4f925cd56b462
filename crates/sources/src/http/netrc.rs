//! Names and passwords of servers in the user's `.netrc`, as curl and others read it.

use std::path::PathBuf;

/// A longer file is none of a person's.
const NETRC_BYTES_MAX: u64 = 1 << 20;

/// The user's name and password at `host`, if the file `$NETRC`, or `.netrc` of the home directory, has them.
pub(super) fn login_for(host: &str) -> Option<(String, String)> {
    let named = std::env::var_os("NETRC").map(PathBuf::from);
    let path = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".netrc")))?;
    let size = std::fs::metadata(&path).ok()?.len();
    if size > NETRC_BYTES_MAX {
        log::warn!("{}: {size} bytes are too long for a list of passwords: it is not read", path.display());
        return None;
    }
    find(&std::fs::read_to_string(path).ok()?, host)
}

/// The login for `host` in a file's text. Macros are skipped.
fn find(text: &str, host: &str) -> Option<(String, String)> {
    let mut login: Option<(bool, String, String)> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "macdef" => {
                    // It ends with an empty line.
                    lines.by_ref().take_while(|line| !line.trim().is_empty()).for_each(drop);
                    break;
                }
                "machine" | "default" => {
                    if login.as_ref().is_some_and(|(is_it, ..)| *is_it) {
                        break;
                    }
                    let is_it = word == "default" || words.next().is_some_and(|name| name.eq_ignore_ascii_case(host));
                    login = Some((is_it, String::new(), String::new()));
                }
                "login" | "password" | "account" => {
                    let value = words.next().unwrap_or_default().to_owned();
                    if let Some((_, user, password)) = &mut login {
                        match word {
                            "login" => *user = value,
                            "password" => *password = value,
                            _ => {}
                        }
                    }
                }
                word if word.starts_with('#') => break,
                _ => {}
            }
        }
        if let Some((true, user, password)) = &login
            && !user.is_empty()
            && !password.is_empty()
        {
            return Some((user.clone(), password.clone()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_reads_what_people_write() {
        let text = "# mine\nmachine a.example login me password one\nmacdef init\n machine b login x password y\n\n\
                    machine B.example\n login you\n password two\ndefault login anyone password three\n";
        let login = |host| find(text, host).map(|(user, password)| format!("{user}:{password}"));
        assert_eq!(login("a.example").as_deref(), Some("me:one"));
        assert_eq!(login("b.example").as_deref(), Some("you:two"));
        assert_eq!(login("b").as_deref(), Some("anyone:three"));
        assert_eq!(find("machine a login b", "a"), None);
    }
}
