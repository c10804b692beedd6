//! What is printed: a table for people, JSON for programs.
