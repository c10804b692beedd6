//! Colours, and how a mark looks. What is marked can be told apart without colour: by dashes, and by how strong a line is.

use crate::layout::{Frame, Wire};
use crate::picture::Mark;

/// Red, green, blue.
pub type Colour = [u8; 3];

/// Letters and lines.
pub const INK: Colour = [35, 35, 40];
/// Inside of boxes of nodes.
pub const NODE: Colour = [243, 244, 247];
/// Inside of boxes of processes, and of discs.
pub const PAPER: Colour = [255, 255, 255];
/// Radius of the corners of boxes.
pub const CORNER: f64 = 7.0;
/// Radius of the corners of edges.
pub const BEND: f64 = 5.0;
/// An arrow: how long, and half of how wide.
pub const ARROW: (f64, f64) = (8.0, 4.0);

/// Colours of edges, by the process that sends; those of the plots of `dp logp` without black and grey.
const SENDERS: [Colour; 6] =
    [[20, 70, 150], [170, 40, 30], [60, 110, 40], [150, 90, 150], [190, 120, 20], [30, 130, 140]];
const FAINT: Colour = [150, 150, 155];
const ALARM: Colour = [200, 30, 30];

/// A line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    /// Its colour.
    pub colour: Colour,
    /// How thick it is.
    pub thick: f64,
    /// It is broken: how long dashes and gaps are.
    pub dash: Option<f64>,
}

/// A line in a picture, as its mark wants it; what nothing is known against has this colour.
pub fn stroke(mark: Mark, colour: Colour) -> Stroke {
    match mark {
        Mark::Agreed => Stroke { colour, thick: 1.5, dash: None },
        Mark::FileOnly => Stroke { colour: FAINT, thick: 1.5, dash: Some(4.0) },
        Mark::RunningOnly => Stroke { colour: ALARM, thick: 3.0, dash: None },
        Mark::Unseen => Stroke { colour: FAINT, thick: 1.0, dash: None },
    }
}

impl Wire {
    /// How its line looks.
    pub fn stroke(&self) -> Stroke {
        stroke(self.mark, SENDERS[self.sender % SENDERS.len()])
    }
}

impl Frame {
    /// How its border looks.
    pub fn stroke(&self) -> Stroke {
        if self.inner {
            stroke(self.mark, INK)
        } else {
            Stroke { colour: FAINT, thick: 1.0, dash: None }
        }
    }

    /// What it is filled with.
    pub fn fill(&self) -> Colour {
        if self.inner {
            PAPER
        } else {
            NODE
        }
    }
}
