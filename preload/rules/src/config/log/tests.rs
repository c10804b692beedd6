use super::*;

fn read(value: &str) -> Result<Option<Log>, Fault> {
    parse(OsStr::new(value))
}

fn log(place: Place, level: Level) -> Result<Option<Log>, Fault> {
    Ok(Some(Log { place, level }))
}

#[test]
fn places_and_levels() {
    let file = |path: &str| Place::File(CString::new(path).unwrap());
    assert_eq!(read("stderr"), log(Place::Stderr, Level::Info));
    assert_eq!(read("stderr:warning"), log(Place::Stderr, Level::Warning));
    assert_eq!(read(" journal:debug "), log(Place::Journal, Level::Debug));
    assert_eq!(read("/var/log/dp"), log(file("/var/log/dp"), Level::Info));
    assert_eq!(read("/var/log/dp.log:debug"), log(file("/var/log/dp.log"), Level::Debug));
    assert_eq!(read("/a b:info"), log(file("/a b"), Level::Info));
    assert_eq!(read("/a:b:debug"), log(file("/a:b"), Level::Debug));
    for unset in ["", " ", "\n"] {
        assert_eq!(read(unset), Ok(None));
    }
}

#[test]
fn a_place_that_cannot_be_written_to_is_named() {
    let path = std::env::temp_dir().join(format!("dp-log-{}/missing", std::process::id()));
    let path = CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
    let log = Log { place: Place::File(path.clone()), level: Level::Info };
    let said = log.check_place().unwrap_err().to_string();
    let path = path.to_str().unwrap();
    let expected = format!("DP_LOG: {path}: No such file or directory (os error 2); name a file that");
    assert!(said.starts_with(&expected), "{said}");
    assert!(Log { place: Place::Stderr, level: Level::Info }.check_place().is_ok());
}

#[test]
fn what_is_neither_is_told() {
    for (value, fault) in [
        ("stdout", Fault::NoPlace),
        ("debug", Fault::NoPlace),
        ("1", Fault::NoPlace),
        ("dp.log", Fault::NoPlace),
        ("./dp.log", Fault::NoPlace),
        ("/", Fault::NoPlace),
        ("/var/log/", Fault::NoPlace),
        (":debug", Fault::NoPlace),
        ("Stderr", Fault::NoPlace),
        ("stderr:", Fault::NoLevel),
        ("stderr:debgu", Fault::NoLevel),
        ("stderr:7", Fault::NoLevel),
        ("/var/log/dp:debgu", Fault::NoLevel),
        ("/var/log/a:b", Fault::NoLevel),
    ] {
        assert_eq!(read(value), Err(fault), "{value}");
    }
    let wrong = Wrong { value: "stderr:\u{1b}x".into(), fault: Fault::NoLevel };
    assert_eq!(
        wrong.to_string(),
        "DP_LOG=stderr:\\u{1b}x: what stands behind the colon is no level; warning, info or debug can stand there, as in \
         stderr:debug: correct it, or unset DP_LOG"
    );
}
