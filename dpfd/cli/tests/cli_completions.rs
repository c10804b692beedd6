//! The scripts of `dp completions`, asked by the shells that they are for.

mod kit;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use kit::{skip, Folder};

fn dp(shell: &str) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_dp")).args(["completions", shell]).output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty());
    String::from_utf8(out.stdout).unwrap()
}

/// What a shell prints that reads the script first and then does this; None where there is no such shell.
fn asked(shell: &str, then: &str) -> Option<String> {
    let folder = Folder::new(shell);
    let script = folder.file("script", &dp(shell));
    // With the units of a system, and one of a user's manager.
    let systemctl = folder.file("systemctl", SYSTEMCTL);
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command
        .args(["-s", "KILL", "60", shell, "-c", then])
        .env("SCRIPT", &script)
        .env("HOME", &folder.path)
        .env("PATH", path);
    let out = command.output().expect("timeout, of Debian's coreutils");
    if out.status.code() == Some(127) {
        skip(&format!("completions of {shell}: no {shell} here"));
        return None;
    }
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}: {said}{}", out.status, String::from_utf8_lossy(&out.stderr));
    Some(said)
}

const SYSTEMCTL: &str = "#!/bin/sh
case $*$1 in
    --user*) echo 'player.service enabled enabled' ;;
    *list-unit-files) printf 'nginx.service enabled enabled\nnginx-old.service masked\npg@.service disabled\n' ;;
    *list-units) printf 'nginx.service loaded active running A server\npg@15-main.service loaded active running PostgreSQL\n' ;;
esac
";

#[test]
fn bash_completes_verbs_options_values_and_programs() {
    const ASK: &str = r#"
        source "$SCRIPT"
        ask() {
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=() COMP_LINE="$*"
            COMP_POINT=${#COMP_LINE}
            local way=$(complete -p dp | sed 's/.*-F \([^ ]*\).*/\1/')
            $way dp "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
            echo "$* = ${COMPREPLY[*]}"
        }
        ask dp re
        ask dp bench --s
        ask dp completions ''
        ask dp ls --reason no-d
        ask dp enable ngi
        ask dp status --user-manager ''
        ask dp disable --n
        ask dp rules explain --unit pg@1
        ask dp node --xdp a
        # bash cuts the word at @.
        COMP_WORDS=(dp disable pg @ 15) COMP_CWORD=4 COMPREPLY=() COMP_LINE="dp disable pg@15" COMP_POINT=16
        _dp_with_words dp 15 @
        echo "cut = ${COMPREPLY[*]}"
        ask dp run -- bas
    "#;
    let Some(said) = asked("bash", ASK) else { return };
    for line in [
        "dp ls --reason no-d = no-door",
        "dp enable ngi = nginx-old.service nginx.service",
        "dp status --user-manager  = player.service",
        "dp disable --n = --now",
        "dp rules explain --unit pg@1 = pg@15-main.service",
        "dp node --xdp a = auto always",
        "cut = 15-main.service",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert!(said.starts_with("dp re = recv\ndp bench --s = --size --seconds\n"), "{said}");
    assert!(said.contains("bash zsh fish") && said.contains(" bash"), "{said}");
    let programs = said.lines().last().unwrap();
    assert!(
        programs.strip_prefix("dp run -- bas = ").is_some_and(|p| p.split(' ').any(|p| p == "bash")),
        "{said}"
    );
}

#[test]
fn fish_completes_verbs_options_values_and_programs() {
    const ASK: &str = r#"
        source $SCRIPT
        for line in 'dp re' 'dp bench --s' 'dp completions ' 'dp run -- bas'
            complete -C $line
        end
        for line in 'dp enable ngi' 'dp status --user-manager ' 'dp disable pg@1' 'dp top --reason no-d' 'dp rules explain --unit pg@1' \
            'dp node --xdp al'
            echo $line = (complete -C $line | string match -r '^\S+')
        end
    "#;
    let Some(said) = asked("fish", ASK) else { return };
    for line in [
        "dp enable ngi = nginx.service nginx-old.service",
        "dp status --user-manager  = player.service",
        "dp disable pg@1 = pg@15-main.service",
        "dp top --reason no-d = no-door",
        "dp rules explain --unit pg@1 = pg@15-main.service",
        "dp node --xdp al = always",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    let words: Vec<&str> = said.lines().filter_map(|line| line.split('\t').next()).collect();
    assert!(words.starts_with(&["recv", "--seconds", "--size", "bash", "fish", "zsh"]), "{words:?}");
    assert!(words.contains(&"bash") && words.len() > 6, "{words:?}");
}

/// An interactive one in a terminal of its own: its widgets cannot be called otherwise. Each answer is waited for.
#[test]
fn zsh_completes_verbs_options_and_programs() {
    const ASK: &str = r#"
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z "autoload -U compinit; compinit -u -D; source $SCRIPT; unsetopt zle_bracketed_paste; PS1='GO''ON'"
        zpty -r z said '*GOON*'
        for line answer ('dp rec' 'dp recv*' 'dp bench --sec' '--seconds*' 'dp run bas' 'bash*' \
            'dp enable pg@1' 'pg@15-main.service*' 'dp status --user-manager pl' 'player.service*' \
            'dp disable nginx-' 'nginx-old.service*' 'dp ls --reason no-d' 'no-door*' \
            'dp rules explain --unit pg@1' 'pg@15-main.service*' 'dp node --xdp al' 'always*')
        do
            zpty -n -w z $line$'\t'
            zpty -r z said "*$answer"
            zpty -n -w z $'\C-u'
            print -r -- "$line: yes"
        done
    "#;
    let Some(said) = asked("zsh", ASK) else { return };
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 9 && lines.iter().all(|line| line.ends_with(": yes")), "{said}");
}

#[test]
fn what_help_hides_is_not_offered() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(!dp(shell).contains("--peer") && !dp(shell).contains("-l peer"), "{shell}");
    }
}
