//! Options that the measuring verbs share: the same thing has the same name in each of them.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use dp_measure::printed::Printed;

use super::cores::{cores, Cores};
use super::Result;

/// Where, and how it is printed.
#[derive(clap::Args)]
pub struct Common {
    /// Cores of the two processes [default: the first two].
    #[arg(long, value_name = "A,B", value_parser = cores)]
    cores: Option<Cores>,
    /// Print JSON, as the manual page describes it.
    #[arg(long)]
    json: bool,
}

impl Common {
    /// Those that were named, or the first.
    pub fn cores(&self) -> std::result::Result<Cores, String> {
        self.cores.map_or_else(Cores::first, Ok)
    }

    /// Whether anything is said of them.
    pub fn is_given(&self) -> bool {
        self.cores.is_some() || self.json
    }

    /// As asked for.
    pub fn printed(&self, report: &impl Printed) -> String {
        if self.json {
            report.json()
        } else {
            report.text()
        }
    }
}

/// The options of a survey, which measures many points again and again until its time is up.
#[derive(clap::Args)]
pub struct Survey {
    #[command(flatten)]
    pub common: Common,
    /// Time for all of it; points are measured again until then [default: 60; with --quick 6].
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// Fewer points, and a tenth of the time.
    #[arg(long)]
    pub quick: bool,
    /// Draw what was found into a file that ends in .svg or .png.
    #[arg(long, value_name = "FILE", value_parser = picture)]
    plot: Option<PathBuf>,
}

impl Survey {
    /// Seconds for all of it.
    pub fn time(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 6.0 } else { 60.0 })
    }

    /// Two cores that are two.
    pub fn cores(&self) -> std::result::Result<Cores, String> {
        let cores = self.common.cores()?;
        if cores.shared() {
            return Err(format!(
                "both processes would take turns on core {}, and what two processors do at the same time is to be told apart \
                 here: costs would be sums of both, and of switching between them. Give two cores with --cores; 'dp bench' \
                 measures two processes on one",
                cores.a
            ));
        }
        Ok(cores)
    }

    /// Whether the picture can be written is told before a minute of measuring, not behind it.
    pub fn check_picture(&self) -> Result<()> {
        let Some(path) = &self.plot else { return Ok(()) };
        let there = path.exists();
        OpenOptions::new().append(true).create(true).open(path).map_err(|e| {
            format!("{}: {e}; the picture cannot be written there, nothing was measured", path.display())
        })?;
        if !there {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Has the picture drawn, if there is to be one.
    #[cfg(feature = "plot")]
    pub fn draw(&self, draw: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let Some(path) = &self.plot else { return Ok(()) };
        draw(path).map_err(|e| format!("{}: {e}; the picture could not be drawn", path.display()).into())
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(n) if (1.0..=3600.0).contains(&n) => Ok(n),
        _ => Err("a number of seconds from 1 to 3600, decimals allowed".into()),
    }
}

fn picture(text: &str) -> std::result::Result<PathBuf, String> {
    if cfg!(not(feature = "plot")) {
        return Err("this dp was built without the feature plot; --json has the same numbers".into());
    }
    match Path::new(text).extension().and_then(|e| e.to_str()) {
        Some("svg" | "png") => Ok(text.into()),
        _ => Err("a file name that ends in .svg or .png".into()),
    }
}
