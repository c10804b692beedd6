//! What manual pages tell of `--json`: in lists, where the names of fields begin a line, with commas between. Those of a field's own
//! fields may stand behind it, in braces.
#![allow(dead_code, clippy::allow_attributes, reason = "no test needs both")]

/// The fields of which the lists of a page tell, in lines that are indented so far at most: those further in go on with the one above.
pub fn fields(page: &str, deepest: usize) -> Vec<&str> {
    let lines = lists(page).flat_map(str::lines);
    lines.filter(|line| line.len() - line.trim_start().len() <= deepest).flat_map(names).collect()
}

/// All words of these lists.
pub fn words(page: &str) -> Vec<&str> {
    lists(page).flat_map(|list| list.split(|c: char| c != '_' && !c.is_ascii_alphanumeric())).collect()
}

/// Each name in it stands in a list of the page. What lies in fields that are named in `free` has names of its own.
#[track_caller]
pub fn documents(page: &str, of: &serde_json::Value, free: &[&str]) {
    // The page describes fields of fields of fields in lines that are indented so far; what is further in goes on with a line.
    const DEEPEST: usize = 8;
    match of {
        serde_json::Value::Object(all) => {
            let told = fields(page, DEEPEST);
            for (field, value) in all {
                assert!(told.contains(&field.as_str()), "the page does not tell of {field}");
                if !free.contains(&field.as_str()) {
                    documents(page, value, free);
                }
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|one| documents(page, one, free)),
        _ => {}
    }
}

fn lists(page: &str) -> impl Iterator<Item = &str> {
    page.split(".Bd -literal").skip(1).filter_map(|rest| rest.split(".Ed").next())
}

/// Of what a line tells.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let mut more = true;
    let words =
        line.split_whitespace().take_while(move |word| std::mem::replace(&mut more, word.ends_with(',')));
    words.map(|word| word.trim_end_matches([',', '[', ']', ':']))
}
