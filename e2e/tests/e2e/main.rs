//! End-to-end tests: release binaries, unmodified, on a private engine, seen from outside. `cargo xtask test` runs
//! them; alone: `cargo xtask with-engine -- cargo nextest run -p openshell-e2e`.

mod bad_input;
mod boundary;
mod bounds;
mod certificates;
mod doctor;
mod exec;
mod images;
mod kills;
mod life;
mod main_job;
mod reports;
mod reports_outside;
mod s1;
mod s2;
mod s3;
mod s3_asked;
mod s3_engine;
mod s3_sight;
mod s4;
mod store;
mod supervisor_loss;
mod taken;
mod terminal;
mod ticks;
mod world;
