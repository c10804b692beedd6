use super::*;

const CSV: &str = r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"GET","40160.64","0.529","0.096","0.351","0.583","2.839","90.943"
"#;

#[test]
fn rate_and_percentiles_are_found_by_their_titles() {
    assert_eq!(parse(CSV).unwrap(), [40160.64, 0.351, 2.839]);
    assert_eq!(parse(&format!("WARNING: keepalive is off\n{CSV}")).unwrap(), [40160.64, 0.351, 2.839]);
}

#[test]
fn other_words_are_an_error_that_repeats_them() {
    for said in ["", "\"GET\",\"40160.64\"\n", "Could not connect to Redis", &CSV.replace("40160.64", "nan")]
    {
        let error = parse(said).unwrap_err().to_string();
        assert!(error.contains("redis-benchmark"), "{error}");
    }
}
