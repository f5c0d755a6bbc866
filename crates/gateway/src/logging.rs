//! Logs, on standard error: text for people, JSON for collectors.

use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogFormat, LogLevel};

/// Begins logging. A second call has no effect.
pub(crate) fn begin(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // What libraries say in detail is noise but to those who trace.
    let others = match level {
        LevelFilter::TRACE => LevelFilter::TRACE,
        other => other.min(LevelFilter::WARN),
    };
    // Matches by beginning: all of our crates.
    let filter = Targets::new()
        .with_default(others)
        .with_target("openshell", level);
    let terminal = stderr().is_terminal();
    let json = match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !terminal,
    };
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(stderr);
    let begun = if json {
        registry
            .with(layer.json().flatten_event(true).with_current_span(false))
            .try_init()
    } else {
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        registry.with(layer.with_ansi(colour)).try_init()
    };
    if let Err(error) = begun {
        tracing::debug!(%error, "logging had begun already");
    }
}
