//! The system call filter that every workload process carries: what is refused, and what the broker decides.

pub(crate) mod asm;
#[cfg(test)]
mod tests;

use asm::{Action, Rule, When};

use crate::sys::Instruction;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// From here on numbers belong to another ABI of the same architecture (x32).
#[cfg(target_arch = "x86_64")]
const FOREIGN_FROM: Option<u32> = Some(0x4000_0000);
#[cfg(target_arch = "aarch64")]
const FOREIGN_FROM: Option<u32> = None;

/// New namespaces, as `clone` and `unshare` take them.
const NAMESPACES: u32 = 0x0002_0000 // NEWNS
    | 0x0200_0000 // NEWCGROUP
    | 0x0400_0000 // NEWUTS
    | 0x0800_0000 // NEWIPC
    | 0x1000_0000 // NEWUSER
    | 0x2000_0000 // NEWPID
    | 0x4000_0000; // NEWNET
/// Only `unshare` has it; in `clone` the same bit belongs to the exit signal.
const NEW_TIME: u32 = 0x80;
const NEW_LISTENER: u32 = 8;

/// Never of use to an agent, and each a way out or a way in: refused with EPERM.
const FORBIDDEN: &[libc::c_long] = &[
    // Mounts and the root.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Namespaces of others.
    libc::SYS_setns,
    // Other processes' memory.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    // Kernel surface.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
];

/// Answered as if this kernel had none of them, so that programs use what they used before: handles on
/// processes by which pid 1 could be reached, and the form of clone whose flags no filter can read.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
];

/// Calls that name a process, and with which argument: refused for the runtime's own threads.
const AIMED: &[(libc::c_long, usize)] = &[
    (libc::SYS_kill, 0),
    (libc::SYS_tkill, 0),
    (libc::SYS_tgkill, 0),
    (libc::SYS_rt_sigqueueinfo, 0),
    (libc::SYS_rt_tgsigqueueinfo, 0),
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
];

/// Who, as `setpriority` and `ioprio_set` number it: a process, a group, all of a user, which the runtime is too.
const PRIORITY_OF: [u32; 3] = [0, 1, 2];
const IO_PRIORITY_OF: [u32; 3] = [1, 2, 3];

/// Another owner of a descriptor's signals, by a pointer that no filter can follow.
const F_SETOWN_EX: u32 = 15;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;
/// Typing for somebody else: into a terminal, and on the console.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

/// Priorities of the runtime are its own.
fn priorities([process, group, user]: [u32; 3], protected: &[u32]) -> When {
    let own = Some((1, protected.to_vec()));
    When::Cases(0, vec![(process, own.clone()), (group, own), (user, None)])
}

/// A descriptor may not have its signals, of any number, sent to the runtime or its group.
fn owners(protected: &[u32]) -> When {
    let group = 1u32.wrapping_neg();
    let own = [protected, &[group]].concat();
    let set = libc::F_SETOWN.cast_unsigned();
    When::Cases(1, vec![(set, Some((2, own))), (F_SETOWN_EX, None)])
}

/// The rules. `protected` are the thread ids of the runtime, pid 1 first.
pub(crate) fn rules(protected: &[u32]) -> Vec<Rule> {
    let rule = |number, when, action| Rule {
        number,
        when,
        action,
    };
    let refuse = Action::Refuse(libc::EPERM);
    let families = When::FamilyNotIn(vec![
        libc::AF_UNIX.cast_unsigned(),
        libc::AF_INET.cast_unsigned(),
        libc::AF_INET6.cast_unsigned(),
    ]);
    let no_family = Action::Refuse(libc::EAFNOSUPPORT);
    let typing = vec![TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP];
    // The broker's own first: they are the most used.
    let mut rules = vec![
        rule(libc::SYS_connect, When::Always, Action::Notify),
        rule(libc::SYS_sendto, When::NotNull(4), Action::Notify),
        rule(libc::SYS_socket, families.clone(), no_family),
        rule(libc::SYS_socketpair, families, no_family),
        rule(libc::SYS_ioctl, When::In(1, typing), refuse),
        rule(libc::SYS_fcntl, owners(protected), refuse),
        rule(
            libc::SYS_setpriority,
            priorities(PRIORITY_OF, protected),
            refuse,
        ),
        rule(
            libc::SYS_ioprio_set,
            priorities(IO_PRIORITY_OF, protected),
            refuse,
        ),
        rule(libc::SYS_clone, When::AnyBit(0, NAMESPACES), refuse),
        rule(
            libc::SYS_unshare,
            When::AnyBit(0, NAMESPACES | NEW_TIME),
            refuse,
        ),
        rule(libc::SYS_seccomp, When::AnyBit(1, NEW_LISTENER), refuse),
        rule(
            libc::SYS_execveat,
            When::AnyBit(4, libc::AT_EMPTY_PATH.cast_unsigned()),
            refuse,
        ),
    ];
    for (number, argument) in AIMED {
        let when = When::In(*argument, protected.to_vec());
        rules.push(rule(*number, when, refuse));
    }
    for number in ABSENT {
        rules.push(rule(*number, When::Always, Action::Refuse(libc::ENOSYS)));
    }
    for number in FORBIDDEN {
        rules.push(rule(*number, When::Always, refuse));
    }
    rules
}

/// The program for this machine.
pub(crate) fn program(protected: &[u32]) -> Vec<Instruction> {
    asm::assemble(ARCHITECTURE, FOREIGN_FROM, &rules(protected))
}

/// A program that notifies of one call only, to prove that notifications work at all.
pub(crate) fn probe(number: libc::c_long) -> Vec<Instruction> {
    let rule = Rule {
        number,
        when: When::Always,
        action: Action::Notify,
    };
    asm::assemble(ARCHITECTURE, FOREIGN_FROM, &[rule])
}
