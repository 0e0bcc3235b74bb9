//! Skills of a service, and their verification by a client.

use std::{fs, time::Duration};

use mcp_proto::{
    protocol::{Capability, Era, ProtocolVersion},
    schema::{CacheScope, SKILL_LIMITS, Skill as Described, SkillResources},
};
use serde_json::{Value, json};

use super::body;
use super::pair::{Pair, code};
use crate::{
    client::Host,
    outbound::error::CallError,
    server::{
        builder::ServiceBuilder, catalog_update::CatalogUpdate, register_error::RegisterError, resource::Resource,
        service::Service, skill::Skill, visibility::CatalogItem,
    },
    skills::verify::SkillFault,
};

const REVISIONS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

fn text(name: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}\nlicense: MIT\n---\n# {name}\n")
}

fn pdf() -> Skill {
    Skill::new("office/pdf", text("pdf"))
        .file("forms/tax.json", "{}")
        .file("forms/more/letter", "Dear")
        .file("logo", [0x89, 0xff])
        .file("inner/SKILL.md", text("inner"))
        .file_as("inner/notes.md", "text/x-notes", "notes")
        .file("a b/ä.md", "odd")
        .nested("inner")
}

fn builder() -> ServiceBuilder {
    Service::builder("test", "1").skill(pdf()).skill(Skill::new("mail", text("mail")))
}

fn pair(service: &Service, version: ProtocolVersion) -> Pair {
    Pair::new(&Host::builder("client", "1").build(), service, version)
}

fn listed(pair: &Pair) -> Vec<Described> {
    let list = pair.wait(pair.to_server().list_skills(None).expect("allowed")).expect("skills");
    list.skills
}

/// Adds the metadata that the era requires to the params of a hand-written request.
fn in_era(version: ProtocolVersion, mut params: Value) -> Value {
    if version.era() == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    params
}

fn names(page: &Value) -> Vec<(&str, &str)> {
    let entries = page["resources"].as_array().expect("resources");
    entries.iter().map(|it| (it["uri"].as_str().expect("a URI"), it["mimeType"].as_str().expect("a type"))).collect()
}

#[test]
fn skills_are_listed_with_all_of_their_files() {
    let service = builder().build().expect("a good service");
    for version in REVISIONS {
        let pair = pair(&service, version);
        let declared = pair.to_server().capabilities();
        for capability in [Capability::Resources, Capability::SkillsExtension, Capability::SkillsDirectories] {
            assert!(declared.contains(capability), "{capability:?}");
        }
        let list = body(version, true, pair.send_request("skills/list", json!({})));
        let skills = list["skills"].as_array().expect("skills");
        let uris: Vec<_> = skills.iter().map(|skill| skill["uri"].as_str().expect("a URI")).collect();
        assert_eq!(uris, ["skill://office/pdf/SKILL.md", "skill://office/pdf/inner/SKILL.md", "skill://mail/SKILL.md"]);
        let frontmatter = json!({"name": "pdf", "description": "About pdf", "license": "MIT"});
        assert_eq!(skills[0]["frontmatter"], frontmatter);
        let files = |skill: &Value| -> Vec<String> {
            let files = skill["resources"].as_array().expect("files").iter();
            files.map(|file| file["uri"].as_str().expect("a URI").replace("skill://office/pdf/", "")).collect()
        };
        let inner = ["inner/SKILL.md", "inner/notes.md"];
        assert_eq!(files(&skills[1]), inner);
        let all = ["SKILL.md", "forms/tax.json", "forms/more/letter", "logo", inner[0], inner[1], "a%20b/%C3%A4.md"];
        assert_eq!(files(&skills[0]), all);
        let digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        let tax = json!({"uri": "skill://office/pdf/forms/tax.json", "digest": digest, "size": 2});
        assert_eq!(skills[0]["resources"][1], tax);
        for skill in skills {
            let one = body(version, true, pair.send_request("skills/get", json!({"uri": skill["uri"]})));
            assert_eq!(one, json!({"skill": skill}));
        }
        for uri in ["skill://mail", "skill://office/pdf/logo", "skill://none/SKILL.md", "no uri"] {
            assert_eq!(code(&pair.send_request("skills/get", json!({"uri": uri}))), -32602, "{uri}");
        }
        pair.assert_clean();
    }
}

#[test]
fn skill_methods_require_skills() {
    let service = Service::builder("test", "1").resource(Resource::new("a:b", "b", || "")).build().expect("a service");
    let none = builder().disable_capability(Capability::SkillsExtension).build().expect("a good service");
    for service in [service, none] {
        for version in ProtocolVersion::ALL {
            let pair = pair(&service, version);
            assert!(!pair.to_server().capabilities().contains(Capability::SkillsExtension));
            for (method, params) in [
                ("skills/list", json!({})),
                ("skills/get", json!({"uri": "skill://mail/SKILL.md"})),
                ("resources/directory/read", json!({"uri": "skill://mail"})),
            ] {
                let answer = pair.answer_to(method, in_era(version, params));
                assert_eq!(answer["error"]["code"], -32601, "{version} {method}");
            }
        }
    }
    // Older revisions do not have skills.
    let service = builder().build().expect("a good service");
    for version in ProtocolVersion::ALL.into_iter().filter(|version| !REVISIONS.contains(version)) {
        let pair = pair(&service, version);
        assert_eq!(pair.answer_to("skills/list", json!({}))["error"]["code"], -32601, "{version}");
    }
}

#[test]
fn skill_files_are_resources() {
    let service = builder().build().expect("a good service");
    for version in ProtocolVersion::ALL {
        let pair = pair(&service, version);
        let list = body(version, true, pair.send_request("resources/list", json!({})));
        let of = |uri: &str| {
            let all = list["resources"].as_array().expect("resources");
            all.iter().find(|it| it["uri"] == *uri).unwrap_or_else(|| panic!("no {uri}")).clone()
        };
        let uri = "skill://office/pdf/SKILL.md";
        let size = text("pdf").len();
        let expected =
            json!({"uri": uri, "name": "pdf", "description": "About pdf", "mimeType": "text/markdown", "size": size});
        assert_eq!(of(uri), expected);
        assert_eq!(of("skill://office/pdf/inner/SKILL.md")["name"], "inner");
        assert_eq!(of("skill://office/pdf/inner/notes.md")["mimeType"], "text/x-notes");
        let read = |uri: &str| {
            body(version, true, pair.send_request("resources/read", json!({"uri": uri})))["contents"][0].clone()
        };
        assert_eq!(read(uri), json!({"uri": uri, "mimeType": "text/markdown", "text": text("pdf")}));
        let uri = "skill://office/pdf/logo";
        assert_eq!(read(uri), json!({"uri": uri, "mimeType": "application/octet-stream", "blob": "if8="}));
        assert_eq!(read("skill://office/pdf/forms/more/letter")["mimeType"], "text/plain");
        assert_eq!(read("skill://office/pdf/a%20b/%C3%A4.md")["text"], "odd");
        let missing = if version.era() == Era::Modern { -32602 } else { -32002 };
        for uri in ["skill://office/pdf", "skill://office/pdf/none", "skill://office/pdf/forms"] {
            assert_eq!(code(&pair.send_request("resources/read", json!({"uri": uri}))), missing, "{uri}");
        }
    }
}

#[test]
fn reads_skill_folders_one_level_at_a_time() {
    let service = builder().page_size(2).build().expect("a good service");
    for version in REVISIONS {
        let pair = pair(&service, version);
        let read = |uri: &str| {
            let (mut entries, mut pages, mut params) = (Vec::new(), 0, json!({"uri": uri}));
            loop {
                let page = body(version, false, pair.send_request("resources/directory/read", params.take()));
                pages += 1;
                entries.extend(names(&page).into_iter().map(|(uri, kind)| (uri.to_owned(), kind.to_owned())));
                match page.get("nextCursor") {
                    Some(cursor) => params = json!({"uri": uri, "cursor": cursor}),
                    None => return (entries, pages),
                }
            }
        };
        let folder = "inode/directory";
        let at = |prefix: &str, entries: &[(&str, &str)]| -> Vec<(String, String)> {
            entries.iter().map(|(name, kind)| (format!("{prefix}/{name}"), (*kind).to_owned())).collect()
        };
        let root = "skill://office/pdf";
        let entries = [
            ("SKILL.md", "text/markdown"),
            ("a%20b", folder),
            ("forms", folder),
            ("inner", folder),
            ("logo", "application/octet-stream"),
        ];
        assert_eq!(read(root), (at(root, &entries), 3));
        let forms = "skill://office/pdf/forms";
        assert_eq!(read(forms), (at(forms, &[("more", folder), ("tax.json", "application/json")]), 1));
        assert_eq!(read("skill://office").0, at("skill://office", &[("pdf", folder)]));
        let of_pdf = pair.to_server().all_in_directory(root);
        let all = std::thread::spawn(move || of_pdf.collect::<Result<Vec<_>, CallError>>());
        assert_eq!(pair.finish(all).expect("all of it").len(), 5);
        for uri in [
            "skill://office/pdf/SKILL.md",
            "skill://office/pdf/",
            "skill://office/pd",
            "skill://none",
            "skill:",
            "skill:/",
            "skill://",
            "skill://office/pdf/forms/../forms",
            "no uri",
        ] {
            assert_eq!(code(&pair.send_request("resources/directory/read", json!({"uri": uri}))), -32602, "{uri}");
        }
        for cursor in ["", "d:", "logo", "d:a/b", "s1", "t1"] {
            let params = json!({"uri": root, "cursor": cursor});
            assert_eq!(code(&pair.send_request("resources/directory/read", params)), -32602, "{cursor}");
        }
        pair.assert_clean();
    }
}

#[test]
fn client_loads_only_listed_skill_files() {
    let service = builder().build().expect("a good service");
    for version in REVISIONS {
        let pair = pair(&service, version);
        let server = pair.to_server();
        let skills = listed(&pair);
        for skill in &skills {
            let loaded = pair.wait(server.load_skill(skill).expect("allowed")).expect("the file");
            assert_eq!(loaded.text(), Some(text(&skill.frontmatter.name).as_str()));
            for file in skill.resources.listed().expect("files") {
                let read = pair.wait(server.read_skill_file(skill, &file.uri).expect("allowed")).expect("the file");
                assert_eq!((read.uri.as_str(), read.bytes.len() as u64), (file.uri.as_str(), file.size));
            }
        }
        let unlisted = server.read_skill_file(&skills[1], &skills[0].uri);
        assert!(matches!(unlisted, Err(CallError::Skill(SkillFault::Unlisted(_)))));
        // A file that has changed does not match the verified skill.
        let mut changed = skills[0].clone();
        let SkillResources::Listed(files) = &mut changed.resources else { panic!("it has files") };
        files[0].digest = files[1].digest.clone();
        let refused = pair.wait(server.load_skill(&changed).expect("allowed"));
        assert_eq!(refused, Err(CallError::Skill(SkillFault::Digest)));
        let fresh = pair.wait(server.get_skill(&changed.uri).expect("allowed")).expect("the skill").skill;
        assert_eq!(fresh, skills[0]);
    }
}

#[test]
fn skill_is_added_and_removed_with_all_files() {
    let service = builder().build().expect("a good service");
    let uri = "skill://office/pdf/SKILL.md";
    let taken =
        |result: Result<(), RegisterError>| assert!(matches!(result, Err(RegisterError::Taken(_))), "{result:?}");
    let pair = pair(&service, ProtocolVersion::LATEST_LEGACY);
    let counts = || {
        let resources = pair.send_request("resources/list", json!({})).expect("a list");
        (listed(&pair).len(), resources["resources"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(counts(), (3, 8));
    taken(service.add(pdf()));
    taken(service.add(Skill::new("office/pdf/inner", text("inner"))));
    taken(service.add(Resource::new("skill://office/pdf/logo", "logo", || "")));
    // A file of a skill cannot be removed alone.
    assert!(!service.remove_resource("skill://office/pdf/logo"));
    service.update(CatalogUpdate::new().remove_resource("skill://office/pdf/logo")).expect("nothing to do");
    taken(service.update(CatalogUpdate::new().remove_resource("skill://office/pdf/logo").add(Resource::new(
        "skill://office/pdf/logo",
        "l",
        || "",
    ))));
    assert_eq!(counts(), (3, 8));
    // A nested skill can be removed without its files, which belong to the outer one.
    assert!(service.remove_skill("skill://office/pdf/inner/SKILL.md"));
    assert_eq!(counts(), (2, 8));
    assert!(service.remove_skill(uri));
    assert!(!service.remove_skill(uri));
    assert_eq!(counts(), (1, 1));
    assert_eq!(code(&pair.send_request("resources/directory/read", json!({"uri": "skill://office"}))), -32602);
    // One skill replaces the other. A skill that is added and removed in one update does not appear.
    let other = || Skill::new("mail", "---\nname: mail\ndescription: Another one\n---\n").file("x", "y");
    service
        .update(CatalogUpdate::new().remove_skill("skill://mail/SKILL.md").add(other()))
        .expect("it takes its place");
    assert_eq!(counts(), (1, 2));
    service.update(CatalogUpdate::new().add(pdf()).remove_skill(uri)).expect("it comes and goes");
    assert_eq!(counts(), (1, 2));
    service.add(pdf()).expect("it comes again");
    assert_eq!(counts(), (3, 9));
}

#[test]
fn skill_changes_send_resource_list_changed() {
    let service = builder().build().expect("a good service");
    let pair = pair(&service, ProtocolVersion::LATEST_LEGACY);
    pair.settle();
    pair.server.take_lines();
    let told = || {
        pair.settle();
        let lines = pair.server.take_lines();
        lines.iter().filter(|line| line["method"] == "notifications/resources/list_changed").count()
    };
    service.add(Skill::new("more", text("more"))).expect("a good skill");
    assert_eq!(told(), 1);
    assert!(service.remove_skill("skill://more/SKILL.md"));
    assert_eq!(told(), 1);
    assert!(!service.remove_skill("skill://more/SKILL.md"));
    assert_eq!(told(), 0);
}

#[test]
fn hidden_skill_hides_its_files() {
    let service = builder()
        .cache_lists_for(Duration::from_secs(60), CacheScope::Public)
        .visible(|offer, _| !matches!(offer, CatalogItem::Skill(skill) if skill.frontmatter.name == "pdf"))
        .build()
        .expect("a good service");
    for version in REVISIONS {
        let pair = pair(&service, version);
        let list = pair.send_request("skills/list", json!({})).expect("a list");
        let uris: Vec<_> = list["skills"].as_array().expect("skills").iter().map(|skill| &skill["uri"]).collect();
        assert_eq!(uris, ["skill://office/pdf/inner/SKILL.md", "skill://mail/SKILL.md"]);
        if version.era() == Era::Modern {
            assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(60_000), &json!("private")));
        }
        assert_eq!(code(&pair.send_request("skills/get", json!({"uri": "skill://office/pdf/SKILL.md"}))), -32602);
        assert_eq!(code(&pair.send_request("resources/directory/read", json!({"uri": "skill://office/pdf"}))), -32602);
        assert!(pair.send_request("resources/read", json!({"uri": "skill://office/pdf/logo"})).is_err());
        let resources = pair.send_request("resources/list", json!({})).expect("a list");
        assert_eq!(resources["resources"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn skills_have_cache_times() {
    let hour = Duration::from_secs(3600);
    let skill = Skill::new("mail", text("mail")).cache_for(hour, CacheScope::Public);
    let service = Service::builder("test", "1").skill(skill).cache_lists_for(hour, CacheScope::Public);
    let service = service.build().expect("a good service");
    let pair = pair(&service, ProtocolVersion::V2026_07_28);
    for method in ["skills/list", "skills/get", "resources/read"] {
        let params = if method == "skills/list" { json!({}) } else { json!({"uri": "skill://mail/SKILL.md"}) };
        let result = pair.send_request(method, params).expect("a result");
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(3_600_000), &json!("public")), "{method}");
    }
}

#[test]
fn dynamic_skill_has_no_digests() {
    let uri = "reports://daily/SKILL.md";
    let skill = Skill::dynamic(uri, "daily", "What has happened").frontmatter(|it| it.description.push_str(" today"));
    let manifest = "---\nname: daily\ndescription: What has happened today\n---\n";
    let service = Service::builder("test", "1").skill(skill).build().expect("a good service");
    for version in REVISIONS {
        let pair = pair(&service, version);
        let declared = pair.to_server().capabilities();
        assert!(declared.contains(Capability::Resources) && declared.contains(Capability::SkillsExtension));
        assert!(!declared.contains(Capability::SkillsDirectories), "there is no folder to read");
        let skills = listed(&pair);
        assert_eq!(skills[0].resources, SkillResources::Dynamic);
        let load = || pair.wait(pair.to_server().load_skill(&skills[0]).expect("allowed"));
        assert!(load().expect_err("nothing reads it").is_resource_not_found());
        service.add(Resource::new(uri, "daily", move || manifest)).expect("a good resource");
        assert_eq!(load().expect("the file").text(), Some(manifest));
        service.remove_resource(uri);
        service.add(Resource::new(uri, "daily", || text("daily"))).expect("a good resource");
        assert!(matches!(load(), Err(CallError::Skill(SkillFault::Frontmatter(_)))));
        service.remove_resource(uri);
    }
}

#[test]
fn rejects_invalid_skills() {
    let refused = |skill: Skill| match Service::builder("test", "1").skill(skill).build() {
        Err(RegisterError::Skill { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let good = || Skill::new("a", text("a"));
    let long = "x".repeat(65);
    let heavy = vec![0; usize::try_from(SKILL_LIMITS.1).expect("it fits")];
    let many = (0..SKILL_LIMITS.0).fold(good(), |skill, i| skill.file(format!("f{i}"), ""));
    for (skill, part) in [
        (Skill::new("b", text("a")), "folder is not called"),
        (Skill::new("a/b", text("a")), "folder is not called"),
        (Skill::new(&long, text(&long)), "name"),
        (Skill::new("A", text("A")), "name"),
        (Skill::new("a--b", text("a--b")), "name"),
        (Skill::new("-a", text("-a")), "name"),
        (Skill::new("ä", text("ä")), "URI"),
        (Skill::at("skill://a/README.md", text("a")), "SKILL.md"),
        (Skill::new("a", "# a"), "---"),
        (Skill::new("a", "---\nname: a\n---\n"), "description"),
        (Skill::new("a", "---\nname: a\ndescription: ' '\n---\n"), "description"),
        (Skill::new("a", format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1025))), "description"),
        (Skill::new("a", "---\nname: a\ndescription: *x\n---\n"), ""),
        (good().file("b/../c", ""), "path"),
        (good().file("/b", ""), "path"),
        (good().file("", ""), "path"),
        (good().file("b", "").file("b", ""), "twice"),
        (good().file("SKILL.md", ""), "twice"),
        (good().file("b", "").file("b/c", ""), "folder"),
        (good().nested("b"), "b/SKILL.md"),
        (good().file("b/SKILL.md", text("c")).nested("b"), "folder is not called"),
        (good().file("b", heavy), "bytes"),
        (many, "files"),
    ] {
        let shown = format!("{skill:?}");
        let why = refused(skill);
        assert!(why.contains(part), "{shown}: {why}");
    }
}

#[test]
fn loads_a_skill_from_a_folder() {
    let folder = std::env::temp_dir().join(format!("mcp-service-skill-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("examples")).expect("a folder");
    fs::write(folder.join("SKILL.md"), text("mail")).expect("a file");
    fs::write(folder.join("examples/b.md"), "b").expect("a file");
    fs::write(folder.join("examples/a.md"), "a").expect("a file");
    let skill = Skill::from_folder("office/mail", &folder).expect("a skill");
    let service = Service::builder("test", "1").skill(skill).build().expect("a good service");
    let pair = pair(&service, ProtocolVersion::LATEST_LEGACY);
    let files: Vec<_> = listed(&pair)[0].resources.listed().expect("files").iter().map(|it| it.uri.clone()).collect();
    let expected = ["SKILL.md", "examples/a.md", "examples/b.md"].map(|path| format!("skill://office/mail/{path}"));
    assert_eq!(files, expected);
    // Files that make it as large as a skill can be, and one byte more.
    let rest = usize::try_from(SKILL_LIMITS.1).expect("it fits") - text("mail").len() - "ba".len();
    fs::write(folder.join("rest"), vec![0; rest]).expect("a file");
    let largest = Skill::from_folder("office/mail", &folder).expect("it is not too large");
    Service::builder("test", "1").skill(largest).build().expect("it is not too large");
    fs::write(folder.join("rest"), vec![0; rest + 1]).expect("a file");
    Skill::from_folder("office/mail", &folder).expect_err("it is too large");
    fs::remove_file(folder.join("rest")).expect("it is gone");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/", folder.join("examples/root")).expect("a link");
        Skill::from_folder("office/mail", &folder).expect_err("a link leads elsewhere");
    }
    fs::remove_dir_all(&folder).expect("it is gone");
    Skill::from_folder("office/mail", &folder).expect_err("there is nothing");
}
