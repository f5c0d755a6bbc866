//! The only unsafe code: seccomp filters and their notifications, what a child does before its exec, and a few
//! calls that the safe wrappers leave out.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use tokio::io::unix::AsyncFd;

/// One instruction of classic BPF, laid out as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// Operation.
    pub(crate) code: u16,
    /// Instructions to skip if a comparison holds.
    pub(crate) jt: u8,
    /// Instructions to skip if it does not.
    pub(crate) jf: u8,
    /// Operand.
    pub(crate) k: u32,
}

#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

/// Keeps the allocator to one arena: PID 1 has three threads and little to allocate.
pub(crate) fn keep_heap_small() {
    // SAFETY: mallopt only sets parameters of the allocator; called before any other thread exists.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 128 * 1024);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 * 1024);
    }
}

/// Gives free memory back to the kernel.
pub(crate) fn trim_heap() {
    // SAFETY: malloc_trim may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Sends `signal` to every process of this PID namespace but the caller. Only PID 1 may: anywhere else this
/// would reach processes that are not ours.
pub(crate) fn signal_all(signal: i32) -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::Error::other("only PID 1 signals everybody"));
    }
    // SAFETY: kill takes two integers and touches no memory.
    match unsafe { libc::kill(-1, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts a filter on the calling thread and on all that it will start; the answer is the listener of its
/// notifications.
pub(crate) fn install_filter(program: &[Instruction], flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let fprog = Program {
        length,
        instructions: program.as_ptr(),
    };
    // SAFETY: `fprog` has the layout of `struct sock_fprog` and points to `length` instructions that live
    // until the call returns; the kernel copies them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const fprog,
        )
    };
    let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: with NEW_LISTENER a non-negative answer is a new descriptor (close-on-exec) that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    /// Names it.
    pub(crate) id: u64,
    /// The calling thread.
    pub(crate) pid: i32,
    /// Which call.
    pub(crate) number: i32,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
}

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The kernel does it as asked.
    Continue,
    /// It fails with this error number.
    Fail(i32),
}

/// Where notifications arrive.
#[derive(Debug)]
pub(crate) struct Listener(pub(crate) OwnedFd);

impl Listener {
    /// Waits for the next call.
    pub(crate) fn receive(&self) -> io::Result<Notification> {
        // SAFETY: all-zero is a valid value of this plain structure, and the one the kernel demands.
        let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request matches the structure, which outlives the call.
        let done = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut raw,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Notification {
            id: raw.id,
            pid: i32::try_from(raw.pid).unwrap_or(0),
            number: raw.data.nr,
            arguments: raw.data.args,
        })
    }

    /// Whether the caller is still waiting: what was read of its memory meanwhile was its own.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        // SAFETY: the request takes a pointer to a u64 that outlives the call.
        let done = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const id,
            )
        };
        done == 0
    }

    /// Lets the caller go on. A caller that has gone meanwhile is no error.
    pub(crate) fn answer(&self, id: u64, answer: Answer) {
        let (error, flags) = match answer {
            Answer::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE),
            Answer::Fail(errno) => (-errno, 0),
        };
        let raw = libc::seccomp_notif_resp {
            id,
            val: 0,
            error,
            flags: u32::try_from(flags).unwrap_or(0),
        };
        // SAFETY: the request matches the structure, which outlives the call.
        unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw const raw,
            );
        }
    }
}

/// Makes the command lead a session of its own, with its standard input as controlling terminal if asked.
pub(crate) fn in_new_session(command: &mut Command, terminal: bool) {
    // SAFETY: between fork and exec only setsid and one ioctl are called, both plain system calls that
    // allocate nothing and take no lock.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            if terminal {
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            }
            Ok(())
        });
    }
}

/// What a process of its own sees when it connects to an address outside: the error number, 0 if it succeeded.
/// Called by the filtered thread, to measure that the whole chain works across processes.
pub(crate) fn connect_in_child(address: std::net::Ipv4Addr, port: u16) -> io::Result<i32> {
    let target = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(address).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: the child calls only prctl, socket, connect and _exit, all async-signal-safe, and never returns.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        // SAFETY: as above; `target` is this process's own copy.
        unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
            let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
            let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            let done = libc::connect(fd, (&raw const target).cast(), length);
            libc::_exit(if done == 0 {
                0
            } else {
                *libc::__errno_location()
            });
        }
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call; the child is ours and nobody else reaps it meanwhile.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Err(io::Error::other("the probe was killed"))
    }
}

/// The error number of one `sched_yield`, 0 if it succeeded.
pub(crate) fn yield_errno() -> i32 {
    // SAFETY: the call takes no arguments and touches no memory.
    match unsafe { libc::syscall(libc::SYS_sched_yield) } {
        0 => 0,
        _ => io::Error::last_os_error().raw_os_error().unwrap_or(0),
    }
}

/// The Landlock that this kernel has; 0 for none.
pub(crate) fn landlock_abi() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with the flag VERSION the call takes a null pointer and no size, and only answers a number.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            VERSION,
        )
    };
    u32::try_from(abi).unwrap_or(0)
}

/// A descriptor of our own that the runtime watches.
pub(crate) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names one open file for as long as it lives; the `AsyncFd` owns it and never hands it out.
    unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)
}
