//! The filter, run by a small interpreter of classic BPF.

use super::asm::Action;
use super::*;

const PROTECTED: [u32; 3] = [1, 7, 8];

fn evaluate(architecture: u32, number: i64, arguments: [u64; 6]) -> u32 {
    let program = program(&PROTECTED);
    let mut data = Vec::new();
    data.extend(u32::try_from(number).unwrap().to_ne_bytes());
    data.extend(architecture.to_ne_bytes());
    data.extend(0u64.to_ne_bytes());
    for argument in arguments {
        data.extend(argument.to_ne_bytes());
    }
    let (mut at, mut accumulator) = (0usize, 0u32);
    loop {
        let step = program[at];
        at += 1;
        let skip = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        match step.code {
            0x20 => {
                let from = usize::try_from(step.k).unwrap();
                accumulator = u32::from_ne_bytes(data[from..from + 4].try_into().unwrap());
            }
            0x15 => at += skip(accumulator == step.k),
            0x35 => at += skip(accumulator >= step.k),
            0x45 => at += skip(accumulator & step.k != 0),
            0x06 => return step.k,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

fn verdict(number: i64, arguments: [u64; 6]) -> u32 {
    evaluate(ARCHITECTURE, number, arguments)
}

fn arg(index: usize, value: u64) -> [u64; 6] {
    let mut all = [0; 6];
    all[index] = value;
    all
}

const NONE: [u64; 6] = [0; 6];
const EPERM: Action = Action::Refuse(libc::EPERM);
const ENOSYS: Action = Action::Refuse(libc::ENOSYS);
const NO_FAMILY: Action = Action::Refuse(libc::EAFNOSUPPORT);

#[test]
fn ordinary_calls_are_allowed() {
    for number in [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_openat,
        libc::SYS_execve,
        libc::SYS_futex,
        libc::SYS_sendmsg,
        libc::SYS_bind,
        libc::SYS_prctl,
        libc::SYS_memfd_create,
    ] {
        assert_eq!(verdict(number, NONE), Action::Allow.word(), "{number}");
    }
}

#[test]
fn every_forbidden_call_is_refused_whatever_its_arguments() {
    for number in FORBIDDEN {
        assert_eq!(verdict(*number, NONE), EPERM.word(), "{number}");
        assert_eq!(verdict(*number, [u64::MAX; 6]), EPERM.word(), "{number}");
    }
    for number in ABSENT {
        assert_eq!(verdict(*number, NONE), ENOSYS.word(), "{number}");
    }
}

#[test]
fn the_broker_decides_connects_and_addressed_sends_only() {
    assert_eq!(verdict(libc::SYS_connect, NONE), Action::Notify.word());
    assert_eq!(verdict(libc::SYS_sendto, NONE), Action::Allow.word());
    assert_eq!(
        verdict(libc::SYS_sendto, arg(4, 0x1000)),
        Action::Notify.word()
    );
    // A pointer whose low half is zero is still a pointer.
    let high_only = arg(4, 0x7fff_0000_0000);
    assert_eq!(verdict(libc::SYS_sendto, high_only), Action::Notify.word());
}

#[test]
fn sockets_are_local_or_internet_or_netlink_route() {
    let socket = |family: i32, protocol: u64| {
        let mut arguments = arg(0, u64::try_from(family).unwrap());
        arguments[2] = protocol;
        verdict(libc::SYS_socket, arguments)
    };
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
        assert_eq!(socket(family, 0), Action::Allow.word());
    }
    assert_eq!(socket(libc::AF_NETLINK, 0), Action::Allow.word());
    assert_eq!(socket(libc::AF_NETLINK, 9), NO_FAMILY.word());
    for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_BLUETOOTH, 38] {
        assert_eq!(socket(family, 0), NO_FAMILY.word(), "{family}");
        let pair = arg(0, u64::try_from(family).unwrap());
        assert_eq!(verdict(libc::SYS_socketpair, pair), NO_FAMILY.word());
    }
}

#[test]
fn new_namespaces_are_refused_and_threads_are_not() {
    for flag in 0..32u64 {
        let bit = 1u64 << flag;
        let refused = bit & u64::from(NAMESPACES) != 0;
        let want = if refused { EPERM } else { Action::Allow };
        assert_eq!(
            verdict(libc::SYS_clone, arg(0, bit)),
            want.word(),
            "{bit:#x}"
        );
    }
    assert_eq!(verdict(libc::SYS_unshare, arg(0, 0x80)), EPERM.word());
    assert_eq!(
        verdict(libc::SYS_unshare, arg(0, 0x400)),
        Action::Allow.word()
    );
}

#[test]
fn nothing_is_aimed_at_the_runtimes_own_threads() {
    for (number, argument) in AIMED {
        for id in PROTECTED {
            let call = arg(*argument, u64::from(id));
            assert_eq!(verdict(*number, call), EPERM.word(), "{number} {id}");
        }
        assert_eq!(verdict(*number, arg(*argument, 42)), Action::Allow.word());
        assert_eq!(verdict(*number, NONE), Action::Allow.word());
    }
    // Everybody, and one's own group, do not include pid 1.
    let minus_one = u64::from(u32::MAX);
    assert_eq!(
        verdict(libc::SYS_kill, arg(0, minus_one)),
        Action::Allow.word()
    );
    // The kernel looks at 32 bits; so does the filter.
    let dirty = arg(0, 0xdead_beef_0000_0001);
    assert_eq!(verdict(libc::SYS_kill, dirty), EPERM.word());
}

#[test]
fn no_descriptor_signals_the_runtime_and_nobody_types_for_others() {
    let fcntl = |command: u32, owner: i64| {
        let mut arguments = arg(1, command.into());
        arguments[2] = owner.cast_unsigned();
        verdict(libc::SYS_fcntl, arguments)
    };
    let set = libc::F_SETOWN.cast_unsigned();
    for owner in [1, 7, 8, -1] {
        assert_eq!(fcntl(set, owner), EPERM.word(), "{owner}");
    }
    for owner in [0, 42, -42] {
        assert_eq!(fcntl(set, owner), Action::Allow.word(), "{owner}");
    }
    assert_eq!(fcntl(F_SETOWN_EX, 0x1000), EPERM.word());
    for other in [libc::F_SETFL, libc::F_DUPFD, libc::F_SETLK, libc::F_GETOWN] {
        let other = other.cast_unsigned();
        assert_eq!(fcntl(other, 1), Action::Allow.word(), "{other}");
    }
    let ioctl = |request| verdict(libc::SYS_ioctl, arg(1, request));
    for request in [0x5412, 0x541c, 0x8901, 0x8902] {
        assert_eq!(ioctl(request), EPERM.word(), "{request:#x}");
    }
    for request in [libc::TIOCGWINSZ, libc::FIONBIO, libc::TIOCSCTTY] {
        assert_eq!(ioctl(request), Action::Allow.word(), "{request:#x}");
    }
}

#[test]
fn the_runtimes_priority_is_its_own() {
    for (number, kinds) in [
        (libc::SYS_setpriority, PRIORITY_OF),
        (libc::SYS_ioprio_set, IO_PRIORITY_OF),
    ] {
        let set = |kind: u32, who: u64| {
            let mut arguments = arg(0, kind.into());
            arguments[1] = who;
            verdict(number, arguments)
        };
        let [process, group, user] = kinds;
        for kind in [process, group] {
            assert_eq!(set(kind, 7), EPERM.word());
            assert_eq!(set(kind, 0), Action::Allow.word());
            assert_eq!(set(kind, 42), Action::Allow.word());
        }
        assert_eq!(set(user, 0), EPERM.word());
    }
}

#[test]
fn nobody_else_becomes_a_broker() {
    assert_eq!(verdict(libc::SYS_seccomp, arg(1, 8)), EPERM.word());
    assert_eq!(verdict(libc::SYS_seccomp, arg(1, 1)), Action::Allow.word());
    assert_eq!(verdict(libc::SYS_execveat, arg(4, 0x1000)), EPERM.word());
}

#[test]
fn foreign_abis_are_refused() {
    assert_eq!(evaluate(0x4000_0003, 11, NONE), Action::Kill.word());
    if let Some(first) = FOREIGN_FROM {
        let x32 = i64::from(first) + libc::SYS_connect;
        assert_eq!(verdict(x32, NONE), ENOSYS.word());
    }
}
