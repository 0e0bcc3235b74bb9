use alloc::{format, string::String, vec::Vec};

use super::*;
use crate::{protocol::ProtocolVersion, wire::Json};

const V: ProtocolVersion = ProtocolVersion::LATEST;

fn key(method: Method, params: &str) -> CacheKey {
    key_of(method, params, None)
}

fn key_of(method: Method, params: &str, principal: Option<&str>) -> CacheKey {
    CacheKey::new(method, V, Some(&RawJson::trusted(params)), principal.map(Arc::from)).expect("it can be kept")
}

fn result(ttl: &str, scope: &str) -> Json {
    Json::parse(format!("{{\"tools\":[],\"ttlMs\":{ttl},\"cacheScope\":{scope}}}")).expect("JSON")
}

fn put(cache: &mut Cache, now: Timestamp, key: &CacheKey, result: &Json) -> bool {
    let generation = cache.generation(key);
    cache.put(now, generation, key, &RawJson::from(result))
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn roomy() -> Cache {
    Cache::new(100, 1 << 20)
}

// req: M-CACHE-008 M-CACHE-009 M-CACHE-010 M-CACHE-011 M-CACHE-012 M-DUAL-028
#[test]
fn entries_expire_after_their_ttl() {
    let table = [
        (r#"{"ttlMs":60000}"#, 60_000),
        (r#"{"ttlMs":1}"#, 1),
        (r#"{"ttlMs":18446744073709551615}"#, u64::MAX),
        (r#"{"ttlMs":0}"#, 0),
        (r#"{"ttlMs":-5}"#, 0),
        (r#"{"ttlMs":null}"#, 0),
        (r#"{"ttlMs":"60000"}"#, 0),
        (r#"{"ttlMs":60.5}"#, 0),
        (r#"{"ttlMs":18446744073709551616}"#, 0),
        ("{}", 0),
    ];
    let key = key(Method::ListTools, "{}");
    for (text, ttl) in table {
        let (mut cache, result) = (roomy(), Json::parse(text).expect("JSON"));
        let received = at(7);
        assert_eq!(put(&mut cache, received, &key, &result), ttl > 0, "{text}");
        let end = received + Duration::from_millis(ttl);
        let before = Timestamp::from_nanos(end.as_nanos() - 1);
        assert_eq!(cache.get(before, &key), (ttl > 0).then_some(text), "{text}");
        assert_eq!(cache.get(end, &key), None, "{text}");
        assert_eq!((cache.len(), cache.bytes()), (0, 0), "{text}: what is stale is not kept");
    }
}

// req: M-CACHE-006 M-CACHE-020
#[test]
fn different_requests_have_different_entries() {
    let keys = [
        key(Method::ListTools, "{}"),
        key(Method::ListTools, r#"{"cursor":""}"#),
        key(Method::ListTools, r#"{"cursor":"a"}"#),
        key(Method::ListTools, r#"{"cursor":"b"}"#),
        key(Method::ListTools, r#"{"_meta":{"com.example/tenant":1}}"#),
        key(Method::ListTools, r#"{"extra":1}"#),
        key(Method::ListPrompts, "{}"),
        key(Method::ListResources, "{}"),
        key(Method::ListResourceTemplates, "{}"),
        key(Method::Discover, "{}"),
        key(Method::ReadResource, r#"{"uri":"a:b"}"#),
        key(Method::ReadResource, r#"{"uri":"a:B"}"#),
    ];
    let mut cache = roomy();
    for (n, key) in keys.iter().enumerate() {
        let ttl = format!("{}", 1000 + n);
        assert!(put(&mut cache, at(0), key, &result(&ttl, "\"public\"")));
    }
    for (n, key) in keys.iter().enumerate() {
        let found = cache.get(at(0), key).expect("it was kept");
        assert_eq!(CacheHints::of(&RawJson::trusted(found)).ttl_ms, 1000 + n as u64, "{key:?}");
    }
    // Pages go one by one, each in its time.
    assert_eq!(cache.get(at(1000), &keys[0]), None);
    assert!(cache.get(at(1000), &keys[1]).is_some());
}

// req: M-CACHE-006
#[test]
fn key_ignores_per_request_metadata() {
    let same = [
        r#"{"uri":"a:b"}"#,
        r#"{"uri":"a:b","_meta":{}}"#,
        r#"{"_meta":{"progressToken":7},"uri":"a:b"}"#,
        r#"{"uri":"a:b","_meta":{"traceparent":"00-1","tracestate":"","baggage":"","io.modelcontextprotocol/logLevel":"debug"}}"#,
        r#"{"uri":"a:b","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}"#,
        r#"{ "uri" : "a:b" }"#,
    ];
    for params in same {
        assert_eq!(key(Method::ReadResource, params), key(Method::ReadResource, same[0]), "{params}");
    }
    let tenant = |meta: &str| key(Method::ReadResource, &format!(r#"{{"uri":"a:b","_meta":{meta}}}"#));
    assert_eq!(tenant(r#"{"com.example/tenant":1,"progressToken":1}"#), tenant(r#"{"com.example/tenant":1}"#));
    assert_ne!(tenant(r#"{"com.example/tenant":1}"#), tenant(r#"{"com.example/tenant":2}"#));
    assert_eq!(CacheKey::new(Method::ListTools, V, None, None), Some(key(Method::ListTools, "{}")));
}

// req: M-CACHE-005 M-CACHE-007 M-CACHE-028
#[test]
fn uncacheable_results_are_not_stored() {
    let params = RawJson::trusted("{}");
    for method in Method::ALL {
        let key = CacheKey::new(*method, V, Some(&params), None);
        assert_eq!(key.is_some(), CACHEABLE.contains(method), "{method}");
    }
    for version in ProtocolVersion::LEGACY {
        assert_eq!(CacheKey::new(Method::ListTools, version, Some(&params), None), None);
    }
    for params in [r#"{"uri":"a:b","inputResponses":{}}"#, r#"{"requestState":"s","uri":"a:b"}"#] {
        assert_eq!(CacheKey::new(Method::ReadResource, V, Some(&RawJson::trusted(params)), None), None, "{params}");
    }
    let key = key(Method::ReadResource, r#"{"uri":"a:b"}"#);
    for kind in ["\"input_required\"", "\"task\"", "5"] {
        let mut cache = roomy();
        let text = format!("{{\"resultType\":{kind},\"ttlMs\":1000,\"cacheScope\":\"public\"}}");
        assert!(!put(&mut cache, at(0), &key, &Json::parse(text).expect("JSON")), "{kind}");
        assert_eq!(cache.get(at(0), &key), None, "{kind}");
    }
}

// req: M-CACHE-017 M-CACHE-018 M-CACHE-029
#[test]
fn private_results_are_kept_per_principal() {
    let of = |principal| key_of(Method::ListTools, "{}", principal);
    let everybody = [None, Some("ada"), Some("eve")];
    for (scope, is_public) in
        [("\"public\"", true), ("\"private\"", false), ("\"PUBLIC\"", false), ("5", false), ("null", false)]
    {
        for whose in everybody {
            let mut cache = roomy();
            assert!(put(&mut cache, at(0), &of(whose), &result("1000", scope)));
            for reader in everybody {
                let found = cache.get(at(0), &of(reader)).is_some();
                assert_eq!(found, is_public || reader == whose, "{scope} of {whose:?} for {reader:?}");
            }
        }
    }
    let mut cache = roomy();
    put(&mut cache, at(0), &of(Some("ada")), &Json::parse(r#"{"ttlMs":1000}"#).expect("JSON"));
    assert_eq!(cache.get(at(0), &of(None)), None, "a missing scope is private");
    // A private result is preferred to a public one, and each replaces the other when the same caller repeats the
    // request.
    let mut cache = roomy();
    put(&mut cache, at(0), &of(Some("ada")), &result("1000", "\"private\""));
    put(&mut cache, at(0), &of(Some("eve")), &result("2000", "\"public\""));
    assert!(cache.get(at(0), &of(Some("ada"))).is_some_and(|text| text.contains("private")));
    put(&mut cache, at(0), &of(Some("ada")), &result("3000", "\"public\""));
    assert!(cache.get(at(0), &of(Some("ada"))).is_some_and(|text| text.contains("3000")));
    assert_eq!(cache.len(), 1);
}

// req: M-CACHE-019 M-CACHE-030 M-CACHE-024
#[test]
fn change_invalidates_only_matching_entries() {
    let keys = [
        key(Method::Discover, "{}"),
        key(Method::ListTools, "{}"),
        key(Method::ListTools, r#"{"cursor":"a"}"#),
        key(Method::ListPrompts, "{}"),
        key(Method::ListResources, "{}"),
        key(Method::ListResourceTemplates, "{}"),
        key(Method::ReadResource, r#"{"uri":"file:///a"}"#),
        key(Method::ReadResource, r#"{"uri":"file:///a/b"}"#),
        key(Method::ReadResource, r#"{"uri":"file:///ab"}"#),
        key(Method::ReadResource, r#"{"uri":"file:///a\u002fb"}"#),
        key(Method::ListSkills, "{}"),
        key(Method::GetSkill, r#"{"uri":"skill://a/SKILL.md"}"#),
    ];
    let all: Vec<usize> = (0..keys.len()).collect();
    let table: [(Method, Option<&str>, &[usize]); 8] = [
        (Method::ToolsListChanged, None, &[1, 2]),
        (Method::PromptsListChanged, None, &[3]),
        (Method::ResourcesListChanged, None, &[4, 5, 10, 11]),
        (Method::ResourceUpdated, Some("file:///a"), &[6, 7, 9]),
        (Method::ResourceUpdated, Some("file:///a/b"), &[6, 7, 9]),
        (Method::ResourceUpdated, Some("file:///ab"), &[8]),
        (Method::ResourceUpdated, Some("file:///c"), &[]),
        (Method::Progress, None, &[]),
    ];
    let full = || {
        let mut cache = roomy();
        keys.iter().for_each(|key| assert!(put(&mut cache, at(0), key, &result("1000", "\"private\""))));
        cache
    };
    let left = |cache: &mut Cache| -> Vec<usize> {
        all.iter().copied().filter(|n| cache.get(at(0), &keys[*n]).is_some()).collect()
    };
    for (change, uri, stale) in table {
        let mut cache = full();
        cache.changed(change, uri);
        let expected: Vec<usize> = all.iter().copied().filter(|n| !stale.contains(n)).collect();
        assert_eq!(left(&mut cache), expected, "{change} {uri:?}");
    }
    let mut cache = full();
    cache.forget(Method::ListTools);
    assert_eq!(left(&mut cache), [0, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    cache.clear();
    assert_eq!((left(&mut cache), cache.bytes(), cache.is_empty()), (Vec::new(), 0, true));
}

// req: M-CACHE-019
#[test]
fn result_of_changed_generation_is_not_stored() {
    let (tools, prompts) = (key(Method::ListTools, "{}"), key(Method::ListPrompts, "{}"));
    let good = result("1000", "\"private\"");
    let mut cache = roomy();
    let generation = (cache.generation(&tools), cache.generation(&prompts));
    cache.changed(Method::ToolsListChanged, None);
    assert!(!cache.put(at(0), generation.0, &tools, &RawJson::from(&good)));
    assert!(cache.put(at(0), generation.1, &prompts, &RawJson::from(&good)));
    assert_eq!(cache.get(at(0), &tools), None);
    let generation = cache.generation(&prompts);
    cache.clear();
    assert!(!cache.put(at(0), generation, &prompts, &RawJson::from(&good)));
    // The result of a request that was sent after the clear is stored.
    assert!(put(&mut cache, at(0), &tools, &good));
    // A result that must not be cached still removes the older one.
    assert!(!put(&mut cache, at(0), &tools, &result("0", "\"private\"")));
    assert_eq!(cache.get(at(0), &tools), None);
}

#[test]
fn least_recently_used_entry_is_evicted() {
    let page = |n: usize| key(Method::ListTools, &format!("{{\"cursor\":\"{n}\"}}"));
    let good = result("1000", "\"private\"");
    let mut cache = Cache::new(3, 1 << 20);
    (0..3).for_each(|n| assert!(put(&mut cache, at(0), &page(n), &good)));
    assert!(cache.get(at(0), &page(0)).is_some());
    assert!(put(&mut cache, at(0), &page(3), &good));
    assert_eq!((cache.len(), cache.is_empty()), (3, false));
    let left: Vec<bool> = (0..4).map(|n| cache.get(at(0), &page(n)).is_some()).collect();
    assert_eq!(left, [true, false, true, true]);
    for (entries, bytes) in [(0, 1 << 20), (100, 0)] {
        let mut cache = Cache::new(entries, bytes);
        assert!(!put(&mut cache, at(0), &page(0), &good));
        assert!(cache.is_empty());
    }
}

/// A result in the list that models the cache: index of the query, principal, text, and end of validity.
type Kept = (usize, Option<usize>, String, u64);

#[test]
fn agrees_with_a_plain_list_under_random_operations() {
    const PRINCIPALS: [Option<&str>; 3] = [None, Some("ada"), Some("eve")];
    let queries = [
        (Method::ListTools, "{}"),
        (Method::ListTools, r#"{"cursor":"a"}"#),
        (Method::ListPrompts, "{}"),
        (Method::ReadResource, r#"{"uri":"a:b"}"#),
    ];
    let mut state = 5u64;
    let mut next = |n: u64| {
        crate::test_rng::roll(&mut state);
        usize::try_from((state >> 33) % n).expect("small")
    };
    let (mut cache, mut model) = (Cache::new(1000, usize::MAX), Vec::<Kept>::new());
    for step in 0..20_000u64 {
        let now = step / 4;
        let (query, who) = (next(4), next(3));
        let (method, params) = queries[query];
        let key = key_of(method, params, PRINCIPALS[who]);
        match next(10) {
            0..4 => {
                let (ttl, public) = (next(40) as u64, next(2) == 0);
                let json = result(&format!("{ttl}"), if public { "\"public\"" } else { "\"private\"" });
                put(&mut cache, at(now), &key, &json);
                model.retain(|(other, owner, ..)| *other != query || owner.is_some_and(|owner| owner != who));
                if ttl > 0 {
                    model.push((query, (!public).then_some(who), String::from(json.get()), now + ttl));
                }
            }
            4..9 => {
                let find = |owner: Option<usize>| {
                    model.iter().find(|(other, its, _, end)| *other == query && *its == owner && now < *end)
                };
                let expected = find(Some(who)).or_else(|| find(None)).map(|(_, _, text, _)| text.as_str());
                assert_eq!(cache.get(at(now), &key), expected, "step {step}");
            }
            _ => {
                cache.changed(Method::PromptsListChanged, None);
                model.retain(|(other, ..)| *other != 2);
            }
        }
        let weights: usize = cache.entries.iter().map(|(slot, entry)| weight(slot, entry)).sum();
        assert_eq!((cache.bytes, cache.used.len()), (weights, cache.entries.len()), "step {step}");
    }
}

#[test]
fn memory_stays_within_the_limit() {
    const BYTES: usize = 20_000;
    let mut cache = Cache::new(50, BYTES);
    let mut state = 9u64;
    for step in 0..5_000u64 {
        crate::test_rng::roll(&mut state);
        let len = (state >> 33) % 6_000;
        let text = format!("{{\"ttlMs\":1000,\"x\":\"{}\"}}", "y".repeat(len as usize));
        let key = key(Method::ListTools, &format!("{{\"cursor\":\"{}\"}}", (state >> 20) % 100));
        put(&mut cache, at(step), &key, &Json::parse(text).expect("JSON"));
        assert!(cache.len() <= 50 && cache.bytes() <= BYTES);
    }
    assert!(cache.len() > 1, "the bound is used");
}

#[test]
fn each_byte_of_a_result_counts() {
    let list = |cursor: &str| key(Method::ListTools, &format!("{{\"cursor\":\"{cursor}\"}}"));
    let text = |pad: &str| Json::parse(format!("{{\"ttlMs\":1000,\"x\":\"{pad}\"}}")).expect("JSON");
    let bytes = |cursor: &str, pad: &str| {
        let mut cache = roomy();
        assert!(put(&mut cache, at(0), &list(cursor), &text(pad)));
        cache.bytes()
    };
    let one = bytes("a", "y");
    assert_eq!([bytes("abc", "y"), bytes("a", "yyyy")], [one + 2, one + 3]);
    let entry = size_of::<CacheQuery>() + 2 * (size_of::<Slot>() + size_of::<Entry>());
    assert!(one > entry + text("y").get().len(), "{one}");
    for (most, is_stored) in [(one, true), (one - 1, false)] {
        assert_eq!(put(&mut Cache::new(1, most), at(0), &list("a"), &text("y")), is_stored);
    }
    // The second one takes the place of the first one, unless both fit.
    for (most, len) in [(2 * one, 2), (2 * one - 1, 1)] {
        let mut cache = Cache::new(9, most);
        assert!(put(&mut cache, at(0), &list("a"), &text("y")) && put(&mut cache, at(0), &list("b"), &text("y")));
        assert_eq!((cache.len(), cache.bytes(), cache.is_empty()), (len, len * one, false));
    }
}
