//! Tests of `mcp` with a server that is this program itself: `cli --serve` over standard input and output.

mod bench;
mod bridge;
mod check;
#[expect(dead_code, unreachable_pub, reason = "it has all tools of the server, for any crate")]
mod generated;
mod http_records;
#[cfg(target_os = "linux")]
mod inspect;
#[cfg(unix)]
mod launcher;
mod listen;
mod project;
mod proxy;
mod recorder;
mod replay;
mod server;
#[cfg(unix)]
mod sign_in;
mod trace;
mod usage;

use std::{env, error::Error, fs, path::Path, process::Command, thread};

use generated::{Delivery, EchoArguments, Item, PlaceOrderArguments, Tools};
use libtest_mimic::{Arguments, Trial};
use mcp_service::{Host, block_on};

/// The output of a command: its exit code, the standard output, and the error output.
type Output = (i32, String, String);

/// Runs `mcp` with arguments.
type Mcp = dyn Fn(&[&str]) -> Output;

/// A test in one era.
type Test = fn(&Mcp);

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<_> = env::args().skip(1).collect();
    if given.first().is_some_and(|first| first == "--serve") {
        let service = server::service();
        if given.len() > 1 {
            let notified = service.clone();
            // Until there is a subscription.
            thread::spawn(move || {
                while notified.resource_updated("shop://terms") == 0 {
                    thread::yield_now();
                }
            });
        }
        return Ok(mcp_blocking::serve_stdio(&service)?);
    }
    #[cfg(unix)]
    if env::var_os(sign_in::BROWSER).is_some() {
        sign_in::browse(given.last().expect("a URL"));
        return Ok(());
    }
    if given.first().is_some_and(|first| first == "--mirror") {
        return Ok(recorder::mirror()?);
    }
    let mut tests = Vec::new();
    for era in ["legacy", "modern"] {
        for &(name, test) in TESTS {
            tests.push(Trial::test(format!("{era}::{name}"), move || {
                test(&|arguments| mcp(&[&["--era", era], arguments].concat()));
                Ok(())
            }));
        }
    }
    for &(name, test) in WITHOUT_ERA {
        tests.push(Trial::test(name, move || {
            test();
            Ok(())
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// Returns a command line of the server.
fn target(more: &str) -> String {
    let program = env::current_exe().expect("a program");
    format!("{} --serve{more}", shell_words::quote(program.to_str().expect("a path of UTF-8")))
}

/// Runs `mcp`. `{}` stands for the server.
fn mcp(arguments: &[&str]) -> Output {
    let arguments = arguments.iter().map(|it| if *it == "{}" { target("") } else { (*it).to_owned() });
    let output = Command::new(env!("CARGO_BIN_EXE_mcp")).args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

const TESTS: &[(&str, Test)] = &[
    ("lists", lists),
    ("calls", calls),
    ("failures_have_exit_codes", failures_have_exit_codes),
    ("answers_the_server", answers_the_server),
    ("shows_progress_and_logs", shows_progress_and_logs),
    ("reads", reads),
    ("prompts_and_completes", prompts_and_completes),
    ("subscribes", subscribes),
    ("times_out", times_out),
    ("replay::own_sessions_break_no_rule", replay::own_sessions_break_no_rule),
    ("replay::responses_are_compared", replay::responses_are_compared),
    ("listen::own_sessions_over_http_break_no_rule", listen::own_sessions_over_http_break_no_rule),
    ("bench::measures_calls", bench::measures_calls),
    ("bridge::carries_all_messages", bridge::carries_all_messages),
    ("bridge::carries_subscriptions", bridge::carries_subscriptions),
    ("check::own_servers_pass", check::own_servers_pass),
    ("inspect::needs_a_terminal", needs_a_terminal),
    ("check::own_servers_pass_over_http", check::own_servers_pass_over_http),
    ("check::own_clients_pass", check::own_clients_pass),
    ("check::own_clients_pass_over_http", check::own_clients_pass_over_http),
    #[cfg(unix)]
    ("launcher::commands_end_all_processes", launcher::commands_end_all_processes),
];

const WITHOUT_ERA: &[(&str, fn())] = &[
    ("wrong_usage", wrong_usage),
    #[cfg(unix)]
    ("names_of_servers_stay_in_their_line", names_of_servers_stay_in_their_line),
    ("proxy::proxy_of_the_environment_is_used", proxy::proxy_of_the_environment_is_used),
    #[cfg(unix)]
    ("sign_in::tokens_are_stored_refreshed_and_removed", sign_in::tokens_are_stored_refreshed_and_removed),
    #[cfg(unix)]
    ("sign_in::other_commands_never_ask_the_user", sign_in::other_commands_never_ask_the_user),
    #[cfg(unix)]
    ("sign_in::checks_use_stored_tokens", sign_in::checks_use_stored_tokens),
    #[cfg(unix)]
    ("sign_in::credentials_are_masked_in_reports", sign_in::credentials_are_masked_in_reports),
    #[cfg(unix)]
    ("sign_in::tokens_that_expire_fail_no_check", sign_in::tokens_that_expire_fail_no_check),
    #[cfg(unix)]
    ("sign_in::tokens_that_are_never_accepted_are_reported", sign_in::tokens_that_are_never_accepted_are_reported),
    #[cfg(unix)]
    ("sign_in::servers_that_refuse_valid_tokens_fail", sign_in::servers_that_refuse_valid_tokens_fail),
    #[cfg(unix)]
    ("sign_in::checks_do_not_wait_for_refreshes", sign_in::checks_do_not_wait_for_refreshes),
    #[cfg(unix)]
    ("sign_in::tokens_of_late_refreshes_are_stored", sign_in::tokens_of_late_refreshes_are_stored),
    #[cfg(unix)]
    (
        "sign_in::servers_that_fail_after_the_sign_in_are_reported",
        sign_in::servers_that_fail_after_the_sign_in_are_reported,
    ),
    #[cfg(unix)]
    ("sign_in::wrong_sign_ins", sign_in::wrong_sign_ins),
    ("servers_of_a_file", servers_of_a_file),
    ("generated_module_is_current", generated_module_is_current),
    ("generated_client_calls_tools", generated_client_calls_tools),
    ("record::records_every_byte", recorder::records_every_byte),
    ("record::masks_secrets_of_sessions", recorder::masks_secrets_of_sessions),
    ("record::nothing_is_lost_when_the_recorder_is_killed", recorder::nothing_is_lost_when_the_recorder_is_killed),
    #[cfg(unix)]
    ("record::the_end_of_the_server_is_recorded", recorder::the_end_of_the_server_is_recorded),
    ("record::full_records_do_not_stop_messages", recorder::full_records_do_not_stop_messages),
    #[cfg(unix)]
    ("record::full_error_outputs_do_not_stop_messages", recorder::full_error_outputs_do_not_stop_messages),
    ("record::wrong_recorders", recorder::wrong_recorders),
    ("listen::no_byte_is_changed_but_the_host", listen::no_byte_is_changed_but_the_host),
    ("listen::secrets_of_http_are_masked", listen::secrets_of_http_are_masked),
    ("listen::compressed_bodies_are_not_recorded_with_masks", listen::compressed_bodies_are_not_recorded_with_masks),
    ("listen::addresses_of_the_server_lead_to_the_recorder", listen::addresses_of_the_server_lead_to_the_recorder),
    ("listen::sides_that_hang_up_end_their_exchange", listen::sides_that_hang_up_end_their_exchange),
    ("listen::a_stalled_reader_stops_only_its_exchange", listen::a_stalled_reader_stops_only_its_exchange),
    (
        "listen::nothing_is_lost_when_the_http_recorder_is_killed",
        listen::nothing_is_lost_when_the_http_recorder_is_killed,
    ),
    (
        "listen::killed_servers_leave_requests_without_a_response",
        listen::killed_servers_leave_requests_without_a_response,
    ),
    ("listen::wrong_requests_are_refused", listen::wrong_requests_are_refused),
    (
        "listen::trailers_are_masked_and_forwarded_as_a_whole",
        listen::ends::trailers_are_masked_and_forwarded_as_a_whole,
    ),
    ("listen::addresses_are_masked_in_any_order_of_fields", listen::ends::addresses_are_masked_in_any_order_of_fields),
    ("listen::secrets_in_streams_of_posts_are_masked", listen::ends::secrets_in_streams_of_posts_are_masked),
    (
        "listen::codings_of_the_transfer_are_not_recorded_with_masks",
        listen::ends::codings_of_the_transfer_are_not_recorded_with_masks,
    ),
    (
        "listen::a_client_that_closes_its_direction_gets_the_response",
        listen::ends::a_client_that_closes_its_direction_gets_the_response,
    ),
    ("listen::no_refusal_is_written_into_a_stream", listen::ends::no_refusal_is_written_into_a_stream),
    ("listen::connections_are_bounded", listen::ends::connections_are_bounded),
    #[cfg(unix)]
    ("listen::connections_are_bounded_by_descriptors", listen::ends::connections_are_bounded_by_descriptors),
    ("listen::bytes_before_an_error_are_forwarded", listen::ends::bytes_before_an_error_are_forwarded),
    ("listen::a_wrong_request_leaves_earlier_responses", listen::ends::a_wrong_request_leaves_earlier_responses),
    ("http_records::what_is_lost_accuses_no_side", http_records::what_is_lost_accuses_no_side),
    ("http_records::sessions_that_were_given_up_are_silent", http_records::sessions_that_were_given_up_are_silent),
    ("http_records::addresses_are_relative_to_their_stream", http_records::addresses_are_relative_to_their_stream),
    ("http_records::broken_rules_of_http", http_records::broken_rules_of_http),
    ("http_records::broken_rules_of_http_of_2026", http_records::broken_rules_of_http_of_2026),
    ("http_records::sessions_over_http_are_told_apart", http_records::sessions_over_http_are_told_apart),
    ("replay::broken_rules_of_sessions", replay::broken_rules_of_sessions),
    ("replay::tokens_of_tasks_stay_valid", replay::tokens_of_tasks_stay_valid),
    ("replay::broken_rules_of_2026", replay::broken_rules_of_2026),
    ("replay::subscriptions_of_2026", replay::subscriptions_of_2026),
    ("replay::wrong_params_are_found_once", replay::wrong_params_are_found_once),
    ("replay::requests_without_a_response", replay::requests_without_a_response),
    ("replay::wrong_records", replay::wrong_records),
    ("trace::pages_load_nothing_and_escape_texts", trace::pages_load_nothing_and_escape_texts),
    ("trace::sizes_are_linear", trace::sizes_are_linear),
    ("trace::long_ids_are_cut", trace::long_ids_are_cut),
    ("trace::wrong_outputs", trace::wrong_outputs),
    ("usage::completions_have_the_commands_of_the_help", usage::completions_have_the_commands_of_the_help),
    ("usage::completions_may_be_read_in_part", usage::completions_may_be_read_in_part),
    ("usage::files_that_cannot_be_read_are_named", usage::files_that_cannot_be_read_are_named),
    ("usage::arguments_of_prompts_are_texts", usage::arguments_of_prompts_are_texts),
    ("usage::targets_that_are_something_else_are_explained", usage::targets_that_are_something_else_are_explained),
    ("usage::tokens_that_no_server_takes_are_refused", usage::tokens_that_no_server_takes_are_refused),
    ("usage::wrong_files_of_servers_are_explained", usage::wrong_files_of_servers_are_explained),
    #[cfg(unix)]
    ("usage::lists_that_a_server_does_not_offer_are_named", usage::lists_that_a_server_does_not_offer_are_named),
    ("bench::wrong_results_are_counted", bench::wrong_results_are_counted),
    #[cfg(unix)]
    ("bridge::a_process_that_does_not_listen_is_ended", bridge::a_process_that_does_not_listen_is_ended),
    ("bridge::wrong_bridges", bridge::wrong_bridges),
    #[cfg(unix)]
    ("replay::batches_and_other_requests_are_compared", replay::batches_and_other_requests_are_compared),
    #[cfg(unix)]
    (
        "replay::servers_that_write_before_they_read_are_drained",
        replay::servers_that_write_before_they_read_are_drained,
    ),
    #[cfg(unix)]
    ("replay::requests_that_the_server_does_not_send_differ", replay::requests_that_the_server_does_not_send_differ),
    #[cfg(unix)]
    ("check::unknown_revisions_are_failures", check::unknown_revisions_are_failures),
    #[cfg(unix)]
    ("bridge::servers_that_do_not_end_are_ended", bridge::servers_that_do_not_end_are_ended),
    #[cfg(unix)]
    ("bridge::bridges_over_http_end_with_their_server", bridge::bridges_over_http_end_with_their_server),
    #[cfg(unix)]
    ("check::broken_rules_are_shown", check::broken_rules_are_shown),
    #[cfg(unix)]
    ("check::closed_outputs_hide_no_failure", check::closed_outputs_hide_no_failure),
    #[cfg(unix)]
    ("check::signals_end_the_server", check::signals_end_the_server),
    #[cfg(unix)]
    ("check::nothing_that_was_started_outlives_a_check", check::nothing_that_was_started_outlives_a_check),
    #[cfg(unix)]
    ("check::broken_rules_of_clients_are_shown", check::broken_rules_of_clients_are_shown),
    #[cfg(unix)]
    ("check::signals_end_the_client", check::signals_end_the_client),
    ("check::wrong_checks", check::wrong_checks),
    #[cfg(target_os = "linux")]
    ("inspect::calls_answers_cancels_and_switches", inspect::calls_answers_cancels_and_switches),
    #[cfg(target_os = "linux")]
    ("inspect::signals_restore_the_terminal", inspect::signals_restore_the_terminal),
    #[cfg(target_os = "linux")]
    ("inspect::a_second_signal_kills_the_server", inspect::a_second_signal_kills_the_server),
    #[cfg(target_os = "linux")]
    ("inspect::records_are_stepped_through", inspect::records_are_stepped_through),
    #[cfg(target_os = "linux")]
    ("inspect::hostile_servers_control_nothing", inspect::hostile_servers_control_nothing),
    ("project::projects_compile", project::projects_compile),
    ("project::projects_depend_on_the_repository", project::projects_depend_on_the_repository),
    ("project::man_pages_are_written", project::man_pages_are_written),
    #[cfg(unix)]
    ("bridge::servers_are_restarted", bridge::servers_are_restarted),
    #[cfg(unix)]
    ("launcher::bridges_end_all_processes", launcher::bridges_end_all_processes),
    #[cfg(unix)]
    ("launcher::signals_end_all_processes_of_a_replay", launcher::signals_end_all_processes_of_a_replay),
    #[cfg(unix)]
    ("launcher::timeouts_end_all_processes_of_a_replay", launcher::timeouts_end_all_processes_of_a_replay),
];

fn needs_a_terminal(mcp: &Mcp) {
    let (code, out, err) = mcp(&["inspect", "{}"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("the standard output is no terminal"), "{err}");
}

fn lists(mcp: &Mcp) {
    let (code, out, _) = mcp(&["list", "{}"]);
    assert_eq!(code, 0);
    for line in ["Tools", "  echo: Returns a text", "  shop://terms", "  shop://users/{id}", "Prompts", "  greet"] {
        assert!(out.lines().any(|it| it == line), "{line}: {out}");
    }
    let (code, out, _) = mcp(&["list", "{}", "templates", "--json"]);
    assert_eq!((code, out.lines().count()), (0, 1));
    assert!(out.starts_with('{') && out.contains(r#""uriTemplate":"shop://users/{id}""#), "{out}");
}

#[cfg(unix)]
fn names_of_servers_stay_in_their_line() {
    // It gives this answer to every request.
    let answer = r#"{"jsonrpc":"2.0","id":\1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"completions":{}},"serverInfo":{"name":"s","version":"1"},"tools":[{"name":"a\\u000a  b\\u001b[2J","description":"c\\u000d\\u202ed","inputSchema":{"type":"object"}}],"completion":{"values":["e\\u000af","\\u2066g"]}}}"#;
    let server = format!("sed -un 's/.*\"id\":\\([0-9]*\\).*/{answer}/p'");
    let (code, out, error) = mcp(&["--era", "legacy", "list", &server]);
    assert_eq!((code, &*out), (0, "Tools\n  a\\n  b\\u001b[2J: c\\r\\u202ed\n"), "{error}");
    let (code, out, error) = mcp(&["--era", "legacy", "complete", &server, "p", "x"]);
    assert_eq!((code, &*out), (0, "e\\nf\n\\u2066g\n"), "{error}");
    let (_, out, _) = mcp(&["--era", "legacy", "list", &server, "--json"]);
    assert!(out.contains(r#""name":"a\n  b\u001b[2J""#), "{out}");
}

fn calls(mcp: &Mcp) {
    assert_eq!(mcp(&["call", "{}", "echo", "message=7", "times=2"]).1, "77\n");
    assert_eq!(mcp(&["call", "{}", "echo", r#"{"message": "x"}"#]).1, "x\n");
    let order = [
        "call",
        "{}",
        "placeOrder",
        "type=by-mail",
        r#"items=[{"name":"a","count":2,"parts":[{"name":"b","count":3}]}]"#,
        "labels:={}",
        "--json",
    ];
    let (code, out, error) = mcp(&order);
    assert_eq!(code, 0, "{error}");
    assert!(out.contains(r#""structuredContent":{"items":5,"delivery":"ByMail a  0"}"#), "{out}");
    let file = env::temp_dir().join(format!("mcp-cli-{}.json", std::process::id()));
    fs::write(&file, r#"{"message": "from a file"}"#).expect("it is written");
    assert_eq!(mcp(&["call", "{}", "echo", &format!("@{}", file.display())]).1, "from a file\n");
    let _ = fs::remove_file(file);
}

fn failures_have_exit_codes(mcp: &Mcp) {
    let (code, out, error) = mcp(&["call", "{}", "fail"]);
    assert_eq!((code, &*out, &*error), (1, "it is broken\n", ""));
    let (code, _, error) = mcp(&["call", "{}", "no such tool"]);
    assert!(code == 4 && error.contains("Unknown tool"), "{code} {error}");
    let (code, _, error) = mcp(&["call", "{}", "echo", "times=x"]);
    assert!(code == 2 && error.contains("the argument `times` is not of the type integer"), "{code} {error}");
    let (code, _, error) = mcp(&["read", "{}", "shop://none"]);
    assert!(code == 4 && error.contains("Resource not found"), "{code} {error}");
    let (code, _, error) = mcp(&["list", "/no/such/program"]);
    assert!(code == 3 && error.contains("/no/such/program"), "{code} {error}");
    let (code, _, error) = mcp(&["list", "no-such-server"]);
    assert!(code == 3 && error.contains("--config names the file"), "{code} {error}");
}

fn answers_the_server(mcp: &Mcp) {
    let (_, out, _) = mcp(&["call", "{}", "sign.up", "--answer", "name=Ada", "--answer", "other=1"]);
    assert_eq!(out, "accept {\"name\":\"Ada\",\"news\":true}\n");
    // The tool fails in a session; without a session the request is refused for the missing capability.
    let (code, out, error) = mcp(&["call", "{}", "sign.up"]);
    assert!(code == 1 || code == 4 && out.is_empty(), "{code} {out} {error}");
    assert!(code == 1 || error.contains("--answer, --sample and --root"), "{error}");
    assert_eq!(mcp(&["call", "{}", "think", "--sample", "4"]).1, "4\n");
    assert!(matches!(mcp(&["call", "{}", "think"]).0, 1 | 4));
    let root = env::temp_dir().canonicalize().expect("a folder");
    let (_, out, _) = mcp(&["call", "{}", "folders", "--root", root.to_str().expect("UTF-8")]);
    assert_eq!(out, format!("file://{}\n", root.display()));
}

fn shows_progress_and_logs(mcp: &Mcp) {
    let (code, out, error) = mcp(&["call", "{}", "work"]);
    assert_eq!((code, &*out), (0, "done\n"));
    for line in ["[warning worker] \"it begins\\u001b[2J\"", "50 % step", "100 % step"] {
        assert!(error.lines().any(|it| it == line), "{line}: {error}");
    }
    assert_eq!(mcp(&["call", "{}", "work", "--quiet"]), (0, "done\n".into(), String::new()));
}

fn reads(mcp: &Mcp) {
    assert_eq!(mcp(&["read", "{}", "shop://terms"]).1, "Pay first.\n");
    assert_eq!(mcp(&["read", "{}", "shop://users/7"]).1, "user 7\n");
    let (_, out, _) = mcp(&["read", "{}", "shop://logo", "--json"]);
    assert!(out.contains(r#""mimeType":"image/png""#) && out.contains(r#""blob":"iVD/""#), "{out}");
    let program = env!("CARGO_BIN_EXE_mcp");
    let bytes = Command::new(program).args(["read", &target(""), "shop://logo"]).output().expect("it runs").stdout;
    assert_eq!(bytes, [0x89, b'P', 0xff], "bytes are not changed in a pipe");
}

fn prompts_and_completes(mcp: &Mcp) {
    assert_eq!(mcp(&["prompt", "{}", "greet", "id=Ada"]).1, "user:\nHello Ada\n");
    assert_eq!(mcp(&["complete", "{}", "greet", "id", "a"]).1, "ada\nalan\n");
}

fn subscribes(mcp: &Mcp) {
    let (code, out, error) = mcp(&["subscribe", &target(" notify"), "shop://terms", "--count", "1"]);
    assert_eq!(code, 0, "{error}");
    assert!(out.contains(r#""method":"notifications/resources/updated""#) && out.contains("shop://terms"), "{out}");
}

fn times_out(mcp: &Mcp) {
    let (code, out, error) = mcp(&["call", "{}", "wait", "--timeout", "2"]);
    assert_eq!((code, &*out), (5, ""), "{error}");
    assert!(error.ends_with("; --timeout gives it more\n"), "{error}");
}

fn wrong_usage() {
    let rows: [(&[&str], &str); 12] = [
        (&["call"], "required arguments were not provided"),
        (&["list", ""], "the target is empty"),
        (&["list", "'"], "missing closing quote"),
        (&["list", "http://"], "is not the address of an HTTP server"),
        (&["list", "x", "--config", "/no/such/file"], "/no/such/file cannot be read"),
        (&["list", "{}", "--env", "X"], "a variable of --env is not `NAME=VALUE`"),
        (&["list", "{}", "--answer", "x"], "the answer `x` is not `field=value`"),
        (&["list", "ftp://server/mcp"], "ftp://server/mcp is no address of a server"),
        (
            &["list", "x", "--config", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")],
            "Cargo.toml cannot be used: the file is not JSON",
        ),
        (&["call", "{}", "echo", "@/no/such/file"], "/no/such/file cannot be read"),
        (&["call", "{}", "echo", "message=a", "times=x"], "the argument `times` is not of the type integer"),
        (&["call", "{}", "echo", "message=a", "times=1.5"], "the argument `times` is not of the type integer"),
    ];
    for (arguments, why) in rows {
        let (code, out, error) = mcp(arguments);
        assert!(code == 2 && out.is_empty(), "{arguments:?}: {code} {out}");
        assert!(error.contains(why), "{why}: {error}");
    }
    let secret = "Bearer canary\u{7}";
    let (code, _, error) = mcp(&["list", "http://127.0.0.1:1/mcp", "--header", &format!("Authorization: {secret}")]);
    assert!(code == 2 && error.contains("the header `Authorization` is not"), "{error}");
    assert!(!error.contains("canary"), "{error}");
    for secret in [["--header", "Bearer canary"], ["--env", "canary"]] {
        let target = if secret[0] == "--env" { "{}" } else { "http://127.0.0.1:1/mcp" };
        let (code, _, error) = mcp(&["list", target, secret[0], secret[1]]);
        assert!(code == 2 && !error.contains("canary"), "{error}");
    }
}

fn servers_of_a_file() {
    let file = env::temp_dir().join(format!("mcp-cli-servers-{}.json", std::process::id()));
    let program = env::current_exe().expect("a program");
    let servers = serde_json::json!({"mcpServers": {"shop": {"command": program, "args": ["--serve"]}}});
    fs::write(&file, servers.to_string()).expect("it is written");
    let path = file.to_str().expect("UTF-8");
    assert_eq!(mcp(&["call", "shop", "echo", "message=hi", "--config", path]).1, "hi\n");
    let (code, _, error) = mcp(&["list", "other", "--config", path]);
    assert!(code == 2 && error.contains("has no server `other`, but shop"), "{error}");
    let _ = fs::remove_file(file);
}

/// `MCP_UPDATE_GENERATED=1` writes the module anew.
fn generated_module_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/generated.rs");
    let (code, out, error) = mcp(&["generate", "{}"]);
    assert_eq!(code, 0, "{error}");
    if env::var_os("MCP_UPDATE_GENERATED").is_some() {
        fs::write(&path, &out).expect("it is written");
    }
    assert_eq!(out, fs::read_to_string(path).expect("it is there"), "set MCP_UPDATE_GENERATED=1 to write it anew");
}

fn generated_client_calls_tools() {
    let program = mcp_blocking::Command::new(env::current_exe().expect("a program")).arg("--serve");
    let client = mcp_blocking::Client::spawn(program, &Host::builder("client", "1").build()).expect("it is connected");
    let tools = Tools::new(&client);
    let echo = EchoArguments { message: "a".into(), times: Some(3) };
    let result = block_on(tools.echo(&echo)).expect("a result");
    assert_eq!(result.content[0].as_text(), Some("aaa"));
    let part = Item { name: "b".into(), count: 3, parts: None };
    let item = Item { name: "a".into(), count: 2, parts: Some(vec![part]) };
    let order = PlaceOrderArguments {
        type_: Delivery::PickUp,
        items: vec![item],
        note_for_us: Some("soon".into()),
        labels: [("a".to_owned(), "b".to_owned())].into(),
    };
    let receipt = block_on(tools.place_order(&order)).expect("a result");
    assert_eq!((receipt.items, &*receipt.delivery), (5, "PickUp a soon 1"));
    assert!(block_on(tools.fail()).is_ok_and(|result| result.is_error()));
}
