//! Reads Metalink 4 (RFC 5854): names, sizes, checksums and URLs. Everything else is ignored, as section 4.2 allows.
//!
//! Metalink 3 is read as Fedora and openSUSE publish it: files stand in `files`, URLs in `resources`, checksums in
//! `verification` or in the file itself, and a URL has a preference of up to 100, which is the best.

use roxmltree::{Document, Node, ParsingOptions};

use super::bounds::{self, Lines};
use super::item::{FetchListError, Item, add_checksum, add_mirrors, locations, shown};
use inhaul_session::api::request::Known;

const NAMESPACE: &str = "urn:ietf:params:xml:ns:metalink";
const NAMESPACE_3: &str = "http://www.metalinker.org/";
/// Metalink 3: the best preference.
const PREFERENCE_BEST: u32 = 100;
/// RFC 5854 4.2.16.1: the priority of a URL that has none; 1 is the highest.
const PRIORITY_LOWEST: u32 = 999_999;
/// Most nodes of a document, elements and texts: more than a million files with all that Metalink can say of them need.
const NODES_MAX: u32 = 10_000_000;

pub(super) fn read(text: &str) -> Result<Vec<Item>, FetchListError> {
    bounds::check(text)?;
    // Without document types there are no entities that unfold to gigabytes, and none that name other files.
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document =
        Document::parse_with_options(text, options).map_err(|error| FetchListError::Xml(shown(&error.to_string())))?;
    let root = document.root_element();
    let mut lines = Lines::new(text.as_bytes());
    if root.has_tag_name((NAMESPACE, "metalink")) {
        return files(root, NAMESPACE).map(|node| file(node, NAMESPACE, &mut lines)).collect();
    }
    if root.has_tag_name((NAMESPACE_3, "metalink")) {
        let all = root.children().filter(|node| node.has_tag_name((NAMESPACE_3, "files")));
        let all = all.flat_map(|node| files(node, NAMESPACE_3));
        return all.map(|node| file(node, NAMESPACE_3, &mut lines)).collect();
    }
    Err(FetchListError::NotMetalink(shown(root.tag_name().name())))
}

fn files<'a, 'input>(node: Node<'a, 'input>, space: &'static str) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(move |node| node.has_tag_name((space, "file")))
}

/// What says something of a file: its elements and, in version 3, those one level below.
fn elements<'a, 'input>(node: Node<'a, 'input>, space: &'static str) -> Vec<Node<'a, 'input>> {
    let of = |node: Node<'a, 'input>| {
        node.children().filter(|child| child.is_element() && child.tag_name().namespace() == Some(space))
    };
    let is_group =
        |child: &Node<'_, '_>| space == NAMESPACE_3 && matches!(child.tag_name().name(), "resources" | "verification");
    of(node).flat_map(|child| if is_group(&child) { of(child).collect() } else { vec![child] }).collect()
}

/// Where a URL stands among the others: the lowest is the best.
fn rank(url: Node<'_, '_>, space: &str, line: usize) -> Result<u32, FetchListError> {
    if space == NAMESPACE_3 {
        // Real lists have odd ones; what cannot be read is the worst.
        let preference = url.attribute("preference").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        return Ok(PREFERENCE_BEST.saturating_sub(preference));
    }
    let priority = url.attribute("priority").map(|text| number(text, "priority", line)).transpose()?;
    Ok(priority.unwrap_or(PRIORITY_LOWEST))
}

/// A file (RFC 5854 4.1.2).
fn file(node: Node<'_, '_>, space: &'static str, lines: &mut Lines<'_>) -> Result<Item, FetchListError> {
    let line = lines.at(node.range().start);
    let path = node.attribute("name").ok_or(FetchListError::Missing { line, what: "the name of a file" })?.to_owned();
    let mut known = Known::default();
    let mut urls = Vec::new();
    for child in elements(node, space) {
        let line = lines.at(child.range().start);
        let text = child.text().unwrap_or_default().trim();
        match child.tag_name().name() {
            "size" => known.size = Some(number(text, "size", line)?),
            "hash" => {
                let name =
                    child.attribute("type").ok_or(FetchListError::Missing { line, what: "the type of a hash" })?;
                add_checksum(&mut known, name, text, line)?;
            }
            "url" => {
                let rank = rank(child, space, line)?;
                if let Some(found) = locations(text, line)? {
                    urls.push((rank, found, line));
                }
            }
            _ => {}
        }
    }
    if urls.is_empty() {
        return Err(FetchListError::NoSource { line, path: shown(&path) });
    }
    // Among equals the order of the document remains.
    urls.sort_by_key(|&(priority, ..)| priority);
    let mut mirrors = Vec::new();
    urls.into_iter().try_for_each(|(_, found, line)| add_mirrors(&mut mirrors, found, line))?;
    Ok(Item { line, path, mirrors, known })
}

fn number<N: std::str::FromStr>(text: &str, what: &'static str, line: usize) -> Result<N, FetchListError> {
    text.parse().map_err(|_| FetchListError::BadValue { line, what, value: shown(text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use inhaul_store::checksums::Algorithm;

    fn document(files: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<metalink xmlns=\"{NAMESPACE}\">\n<published>now</published>\n{files}</metalink>\n"
        )
    }

    #[test]
    fn read_takes_names_sizes_hashes_and_urls_by_priority() {
        let sum = "ab".repeat(32);
        let text = document(&format!(
            "<file name=\"d/a &amp; b\">\n<size> 12 </size>\n<hash type=\"sha-256\">{sum}</hash>\n\
             <hash type=\"blake3\">{}</hash><hash type=\"md5\">{}</hash><hash type=\"sha-384\">00</hash>\n\
             <pieces length=\"4\" type=\"sha-1\"><hash>00</hash></pieces>\n\
             <url>inhaul://last/x</url><url priority=\"2\">inhaul://second/y</url>\n\
             <url priority=\"1\">https://web/z</url><url priority=\"1\">inhaul://first,fast:9/x%25</url>\n\
             <url>inhaul://first/again</url></file>",
            sum.to_uppercase(),
            &sum[..32]
        ));
        let items = read(&text).unwrap();
        assert_eq!(items.len(), 1);
        let Item { line, path, mirrors, known } = &items[0];
        assert_eq!((*line, path.as_str(), known.size), (4, "d/a & b", Some(12)));
        let sum = |algorithm: Algorithm| (algorithm, vec![0xab; algorithm.bytes()]);
        assert_eq!(known.sums, [Algorithm::Sha256, Algorithm::Blake3, Algorithm::Md5].map(sum));
        let mirrors: Vec<String> = mirrors.iter().map(ToString::to_string).collect();
        let expected = [
            "https://web/z",
            "inhaul://first:4321/x%25",
            "inhaul://fast:9/x%25",
            "inhaul://second:4321/y",
            "inhaul://last:4321/x",
        ];
        assert_eq!(mirrors, expected);
    }

    #[test]
    fn read_takes_version_3_as_it_is_published() {
        let sum = "ab".repeat(32);
        let resources = "<resources maxconnections=\"1\"><url protocol=\"rsync\" preference=\"100\">rsync://r/f</url>\
            <url protocol=\"http\" preference=\"98\">http://second/f</url>\
            <url protocol=\"https\" preference=\"100\">https://first/f</url></resources>";
        let hash = format!("<hash type=\"sha256\">{sum}</hash>");
        for hash in [format!("<verification><hash type=\"sha512-x\">00</hash>{hash}</verification>"), hash] {
            let text = format!(
                "<metalink version=\"3.0\" xmlns=\"{NAMESPACE_3}\" xmlns:mm0=\"http://fedorahosted.org/mirrormanager\">\
                 <files><file name=\"repomd.xml\"><mm0:timestamp>1</mm0:timestamp><size>9</size>{hash}\
                 <mm0:alternates><mm0:alternate><size>8</size></mm0:alternate></mm0:alternates>{resources}</file></files></metalink>"
            );
            let items = read(&text).unwrap();
            let mirrors: Vec<String> = items[0].mirrors.iter().map(ToString::to_string).collect();
            assert_eq!(mirrors, ["https://first/f", "http://second/f"]);
            assert_eq!((items[0].path.as_str(), items[0].known.size), ("repomd.xml", Some(9)));
            assert_eq!(items[0].known.sums, [(Algorithm::Sha256, vec![0xab; 32])]);
        }
    }

    #[test]
    fn read_refuses_by_line() {
        let of = |inner: &str| read(&document(inner)).unwrap_err();
        let url = "<url>inhaul://a/f</url>";
        assert_eq!(of("<file/>"), FetchListError::Missing { line: 4, what: "the name of a file" });
        assert!(matches!(
            of("\n<file name=\"f\"><url>ftp://a/f</url></file>"),
            FetchListError::NoSource { line: 5, .. }
        ));
        assert!(matches!(
            of("<file name=\"f\"><url>inhaul://a/f,file:///etc/passwd</url></file>"),
            FetchListError::BadUrl { line: 4, .. }
        ));
        assert!(matches!(
            of(&format!("<file name=\"f\">{url}\n<size>-1</size></file>")),
            FetchListError::BadValue { line: 5, what: "size", .. }
        ));
        assert!(matches!(
            of("<file name=\"f\"><url>inhaul://a:0/f</url></file>"),
            FetchListError::BadUrl { line: 4, .. }
        ));
        assert!(matches!(
            of("<file name=\"f\"><hash type=\"sha-256\">abc</hash></file>"),
            FetchListError::BadValue { line: 4, .. }
        ));
        assert!(matches!(of("<file name=\"f\"><hash>ab</hash></file>"), FetchListError::Missing { line: 4, .. }));
    }

    #[test]
    fn read_refuses_what_is_no_metalink_and_what_unfolds() {
        assert!(matches!(read("<metalink><file name=\"f\"/></metalink>"), Err(FetchListError::NotMetalink(_))));
        assert!(matches!(read("inhaul://a/f\n"), Err(FetchListError::Xml(_))));
        let bomb = "<!DOCTYPE m [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><metalink>&b;</metalink>";
        assert!(matches!(read(bomb), Err(FetchListError::Xml(_))));
    }
}
