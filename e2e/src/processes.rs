//! The machine's processes, by what they were started with and by whom.

use rustix::process::Pid;

/// Those whose command line is meant.
pub(crate) fn of(is_meant: impl Fn(&[&str]) -> bool) -> Vec<Pid> {
    let meant = |pid: &Pid| {
        let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
        let line = std::fs::read(path).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let words: Vec<&str> = line.split('\0').collect();
        !words[0].is_empty() && is_meant(&words)
    };
    all().into_iter().filter(meant).collect()
}

/// Those that a process has begun.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let of_it = |pid: &Pid| {
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1) == Some(parent.as_str())
    };
    all().into_iter().filter(of_it).collect()
}

fn all() -> Vec<Pid> {
    let Ok(directory) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let numbers = directory.flatten().filter_map(number);
    numbers.filter_map(Pid::from_raw).collect()
}
