//! Bounds: what takes how long, and how much is held. These tests have the machine to themselves.

use std::fs::File;
use std::io::{Read, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use openshell_e2e::{command, wait};

use crate::world::{IDLE, World, cli};

const MEGABYTE: usize = 1_000_000;

#[test]
fn l15_a_main_that_ignores_term_is_stopped_after_its_grace_and_delays_nobody() {
    let world = World::new("stubborn");
    world.create(
        "stubborn",
        &[],
        &["sh", "-c", "trap '' TERM; while :; do sleep 1000; done"],
    );
    let alone = ten_lives(&world, "before");

    let mut stop = cli(&world, &["sandbox", "stop", "stubborn"]);
    let stop = stop
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let started = Instant::now();
    let mut stop = stop.spawn().expect("the CLI");
    let meanwhile = ten_lives(&world, "during");
    let status = wait::until("the stop to end", Duration::from_secs(30), || {
        Ok(stop.try_wait()?)
    });
    let took = started.elapsed();
    assert!(status.expect("an end").success());
    assert_eq!(world.phase("stubborn"), "Stopped");
    assert!(
        took >= Duration::from_secs(9),
        "the grace was cut short: {took:?}"
    );
    // While the ten lives go on longer than the grace, only they are measured.
    assert!(
        took < Duration::from_secs(13).max(meanwhile + Duration::from_secs(1)),
        "it took {took:?}"
    );
    assert!(
        meanwhile < alone * 2 + Duration::from_secs(2),
        "ten others took {meanwhile:?} beside it and {alone:?} alone"
    );
    world.delete("stubborn");
    world.nothing_is_left();
}

fn ten_lives(world: &World, prefix: &str) -> Duration {
    let started = Instant::now();
    for index in 0..10 {
        let name = format!("{prefix}-{index}");
        world.create(&name, &[], IDLE);
        world.ok(&["sandbox", "stop", &name]);
        world.delete(&name);
    }
    started.elapsed()
}

#[test]
fn five_hundred_megabytes_go_in_and_come_back_unchanged_in_bounded_memory() {
    let world = World::new("bulk");
    world.create("box", &[], IDLE);
    let directory = tempfile::tempdir().expect("a directory");
    let there = directory.path().join("there");
    let back = directory.path().join("back");
    write_noise(&there, 500 * MEGABYTE);
    let mut exec = cli(
        &world,
        &["sandbox", "exec", "box", "--no-login-shell", "--", "cat"],
    );
    exec.stdin(File::open(&there).expect("the file"));
    exec.stdout(File::create(&back).expect("a file"))
        .stderr(Stdio::inherit());
    let mut exec = exec.spawn().expect("the CLI");
    let gateway = world.gateway.pid().expect("a gateway");
    let mut most = 0;
    let status = wait::until("500 MB to go and come", Duration::from_secs(180), || {
        most = most.max(openshell_e2e::host::memory(gateway)?.resident_kib);
        Ok(exec.try_wait()?)
    });
    assert_eq!(command::exit_code(status.expect("an end")), 0);
    assert!(
        same_content(&there, &back),
        "what came back is not what went in"
    );
    assert!(most < 64 * 1024, "the gateway held {most} KiB");
    world.delete("box");
    world.nothing_is_left();
}

fn write_noise(path: &std::path::Path, bytes: usize) {
    let mut file = std::io::BufWriter::new(File::create(path).expect("a file"));
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..bytes / 8 {
        // xorshift64: no two blocks are the same, so that nothing can be dropped or doubled unseen.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())
            .expect("space on the disk");
    }
    file.flush().expect("space on the disk");
}

fn same_content(one: &std::path::Path, other: &std::path::Path) -> bool {
    let sizes = [one, other].map(|path| path.metadata().expect("a file").len());
    let mut files = [one, other].map(|path| File::open(path).expect("a file"));
    let mut blocks = [vec![0; MEGABYTE], vec![0; MEGABYTE]];
    let mut left = sizes[0];
    while sizes[0] == sizes[1] && left > 0 {
        let size = usize::try_from(left).map_or(MEGABYTE, |left| left.min(MEGABYTE));
        for (file, block) in files.iter_mut().zip(&mut blocks) {
            file.read_exact(&mut block[..size]).expect("a block");
        }
        if blocks[0][..size] != blocks[1][..size] {
            return false;
        }
        left -= size as u64;
    }
    sizes[0] == sizes[1]
}
