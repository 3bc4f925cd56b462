//! Where data sets land. The command line alone decides. Existing files do not change it, so a repeated command means
//! the same. The server's names for its data do not change it either.
//!
//! A destination that ends in `/`, or is `.` or `..`, is a directory: each data set lands in it under the last
//! component of the requested path. Any other destination is the new name of the one data set.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use inhaul_base::byte_text::bytes_of;
use inhaul_store::printable;

use inhaul_session::api::error::MoveError;
use inhaul_session::api::request::Request;

/// Whether a destination is a directory for data sets to land in, rather than what one becomes.
pub(crate) fn is_directory(destination: &Path) -> bool {
    let last = destination.as_os_str().as_bytes().rsplit(|&byte| byte == b'/').next();
    matches!(last, None | Some(b"" | b"." | b".."))
}

/// Checks that this number of data sets can land at `destination`.
pub fn check(destination: &Path, count: usize) -> Result<(), MoveError> {
    if count > 1 && !is_directory(destination) { Err(needs_slash(destination, "several sources need")) } else { Ok(()) }
}

/// The requests, each with its place beneath `destination`, unless there is one that becomes it.
pub fn place(requests: &[Request], destination: &Path) -> Result<Vec<Request>, MoveError> {
    check(destination, requests.len())?;
    if !is_directory(destination) {
        // A list names the places of its files itself, if it is one file only.
        let has_place = requests.iter().any(|request| request.place.is_some());
        return if has_place { Err(needs_slash(destination, "a list needs")) } else { Ok(requests.to_vec()) };
    }
    requests.iter().cloned().map(|request| with_name(request, destination)).collect()
}

fn with_name(mut request: Request, destination: &Path) -> Result<Request, MoveError> {
    if request.place.is_none() {
        let path = request.mirrors.first().map(|mirror| mirror.path.as_str()).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if matches!(name, "" | "." | "..") {
            return Err(MoveError::Usage(format!(
                "{} has no name of its own: say what it becomes, as in '{}NAME'",
                request.source(),
                shown(destination)
            )));
        }
        request.place = Some(bytes_of(name).into_owned());
    }
    Ok(request)
}

fn needs_slash(destination: &Path, what: &str) -> MoveError {
    MoveError::Usage(format!("{what} a directory to land in: say '{}'", shown(destination)))
}

/// The destination as a directory, for people.
fn shown(destination: &Path) -> String {
    let text = printable(destination.as_os_str().as_bytes());
    if text.ends_with('/') { text } else { text + "/" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_session::api::source::Source;

    fn request(source: &str) -> Request {
        source.parse::<Source>().unwrap().into()
    }

    #[test]
    fn is_directory_goes_by_the_end() {
        for (destination, is) in
            [("d/", true), ("/", true), (".", true), ("..", true), ("d/.", true), ("d/..", true), ("", true)]
                .into_iter()
                .chain([("d", false), ("/d", false), ("d/e", false), ("d/.e", false), ("...", false)])
        {
            assert_eq!(is_directory(Path::new(destination)), is, "{destination}");
        }
    }

    #[test]
    fn place_is_the_last_component_that_was_asked_for() {
        let of = |source: &str, destination: &str| {
            let placed = place(&[request(source)], Path::new(destination)).map_err(|error| error.to_string())?;
            Ok::<_, String>(placed[0].place.clone().map(|place| String::from_utf8(place).unwrap()))
        };
        assert_eq!(of("inhaul://a/x/run7", "d/").unwrap().as_deref(), Some("run7"));
        assert_eq!(of("inhaul://a/x/run7/", ".").unwrap().as_deref(), Some("run7"));
        assert_eq!(of("inhaul://a/x/100%25 b", "d/").unwrap().as_deref(), Some("100% b"));
        assert_eq!(of("inhaul://a/run7", "d").unwrap(), None);
        assert_eq!(of("inhaul://a/", "d").unwrap(), None);
        for source in ["inhaul://a/", "inhaul://a", "inhaul://a/x/..", "inhaul://a/%2e"] {
            let error = of(source, "d/").unwrap_err();
            assert!(error.contains("say what it becomes, as in 'd/NAME'"), "{source}: {error}");
        }
    }

    #[test]
    fn place_of_several_and_of_lists_needs_a_directory() {
        let several = [request("inhaul://a/x"), request("inhaul://a/y")];
        let error = place(&several, Path::new("d")).unwrap_err();
        assert!(matches!(&error, MoveError::Usage(text) if text.ends_with("say 'd/'")), "{error}");
        assert_eq!(place(&several, Path::new("d/")).unwrap().len(), 2);
        let listed = Request { place: Some(b"sub/f".to_vec()), ..request("inhaul://a/x") };
        assert!(place(std::slice::from_ref(&listed), Path::new("d")).is_err());
        assert_eq!(place(std::slice::from_ref(&listed), Path::new("d/")).unwrap(), [listed]);
    }
}
