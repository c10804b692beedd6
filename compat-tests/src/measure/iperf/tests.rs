use super::*;

#[test]
fn the_receiver_is_believed() {
    let report = r#"{ "start": {}, "end": {
        "sum_sent": { "bytes": 300, "bits_per_second": 2400.5 },
        "sum_received": { "bytes": 250, "bits_per_second": 2000.25 } } }"#;
    assert_eq!(parse(report).unwrap(), (2000.25, 250));
}

#[test]
fn a_failure_is_repeated() {
    let error = parse(r#"{ "start": {}, "end": {}, "error": "unable to connect" }"#).unwrap_err();
    assert!(error.to_string().contains("unable to connect"));
    assert!(parse("iperf3: parameter error").is_err());
}
