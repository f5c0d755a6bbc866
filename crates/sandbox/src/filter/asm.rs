//! A very small assembler for the filter: one block of instructions for each system call with a rule.

use crate::sys::Instruction;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const JUMP_ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The kernel does it.
    Allow,
    /// It fails with this error number.
    Refuse(i32),
    /// The broker decides.
    Notify,
    /// The process is killed.
    Kill,
}

impl Action {
    /// As the kernel wants it.
    pub(crate) fn word(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Refuse(errno) => {
                libc::SECCOMP_RET_ERRNO | (errno.cast_unsigned() & libc::SECCOMP_RET_DATA)
            }
            Self::Notify => libc::SECCOMP_RET_USER_NOTIF,
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// A value, and another argument that must be one of these, if any.
pub(crate) type Case = (u32, Option<(usize, Vec<u32>)>);

/// When a rule applies; else the call is allowed. Arguments are looked at by their low 32 bits, which is all
/// that the kernel uses of those named here, but for pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Always.
    Always,
    /// The argument is one of these.
    In(usize, Vec<u32>),
    /// The argument is the value of one of these cases, and what that case says holds too.
    Cases(usize, Vec<Case>),
    /// The argument has one of these bits.
    AnyBit(usize, u32),
    /// The argument (a pointer) is not null.
    NotNull(usize),
    /// The first argument is none of these families; netlink only with the protocol ROUTE.
    FamilyNotIn(Vec<u32>),
}

/// A rule for one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Its number.
    pub(crate) number: libc::c_long,
    /// When.
    pub(crate) when: When,
    /// Then.
    pub(crate) action: Action,
}

fn statement(code: u16, k: u32) -> Instruction {
    Instruction {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn low(argument: usize) -> Instruction {
    statement(LOAD, 16 + 8 * u32::try_from(argument).unwrap_or(0))
}

fn high(argument: usize) -> Instruction {
    statement(LOAD, 20 + 8 * u32::try_from(argument).unwrap_or(0))
}

fn answer(action: Action) -> Instruction {
    statement(RETURN, action.word())
}

fn length(code: &[Instruction]) -> u8 {
    u8::try_from(code.len()).expect("a block has one pair for each of a few values")
}

/// Every path through a block ends with a return, so the accumulator still holds the number for the next.
fn block(rule: &Rule) -> Vec<Instruction> {
    let mut code = Vec::new();
    match &rule.when {
        When::Always => {}
        When::In(argument, values) => {
            code.push(low(*argument));
            for value in values {
                code.push(jump(JUMP_EQUAL, *value, 0, 1));
                code.push(answer(rule.action));
            }
            code.push(answer(Action::Allow));
            return code;
        }
        When::Cases(argument, cases) => {
            code.push(low(*argument));
            for (value, further) in cases {
                let mut then = Vec::new();
                if let Some((argument, values)) = further {
                    then.push(low(*argument));
                    for value in values {
                        then.push(jump(JUMP_EQUAL, *value, 0, 1));
                        then.push(answer(rule.action));
                    }
                    then.push(answer(Action::Allow));
                } else {
                    then.push(answer(rule.action));
                }
                code.push(jump(JUMP_EQUAL, *value, 0, length(&then)));
                code.extend(then);
            }
            code.push(answer(Action::Allow));
            return code;
        }
        When::AnyBit(argument, bits) => {
            code.push(low(*argument));
            code.push(jump(JUMP_ANY_BIT, *bits, 1, 0));
            code.push(answer(Action::Allow));
        }
        When::NotNull(argument) => {
            code.push(low(*argument));
            code.push(jump(JUMP_EQUAL, 0, 0, 3));
            code.push(high(*argument));
            code.push(jump(JUMP_EQUAL, 0, 0, 1));
            code.push(answer(Action::Allow));
        }
        When::FamilyNotIn(families) => {
            code.push(low(0));
            for family in families {
                code.push(jump(JUMP_EQUAL, *family, 0, 1));
                code.push(answer(Action::Allow));
            }
            code.push(jump(JUMP_EQUAL, libc::AF_NETLINK.cast_unsigned(), 0, 3));
            code.push(low(2));
            code.push(jump(JUMP_EQUAL, libc::NETLINK_ROUTE.cast_unsigned(), 0, 1));
            code.push(answer(Action::Allow));
        }
    }
    code.push(answer(rule.action));
    code
}

/// The program: foreign architectures are killed, a foreign numbering does not exist, then the rules, then all
/// else is allowed.
pub(crate) fn assemble(
    architecture: u32,
    foreign_from: Option<u32>,
    rules: &[Rule],
) -> Vec<Instruction> {
    let mut code = vec![
        statement(LOAD, ARCHITECTURE),
        jump(JUMP_EQUAL, architecture, 1, 0),
        answer(Action::Kill),
        statement(LOAD, NUMBER),
    ];
    if let Some(first) = foreign_from {
        code.push(jump(JUMP_AT_LEAST, first, 0, 1));
        code.push(answer(Action::Refuse(libc::ENOSYS)));
    }
    for rule in rules {
        let Ok(number) = u32::try_from(rule.number) else {
            continue;
        };
        let block = block(rule);
        code.push(jump(JUMP_EQUAL, number, 0, length(&block)));
        code.extend(block);
    }
    code.push(answer(Action::Allow));
    code
}
