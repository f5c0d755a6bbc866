//! The one place that says that a call is not built yet.

use tonic::{Code, Status};

use crate::status;

/// The answer of a call that is not built yet.
pub(super) fn refuse(method: &str) -> Status {
    status::error(
        Code::Unimplemented,
        "UNIMPLEMENTED",
        format!(
            "{} is not built yet in this version of the gateway",
            public(method)
        ),
    )
}

/// `list_providers` as the contract has it: `ListProviders`.
fn public(method: &str) -> String {
    method
        .split('_')
        .flat_map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            [first.to_ascii_uppercase(), rest.to_owned()]
        })
        .collect()
}

/// Methods of an `async_trait` that answer UNIMPLEMENTED. Written as the attribute would expand them, because
/// it does not see into macros.
macro_rules! not_built {
    ($($method:ident($request:ty) -> $response:ty;)*) => {
        $(
            fn $method<'life, 'future>(
                &'life self,
                _: tonic::Request<$request>,
            ) -> std::pin::Pin<
                Box<
                    dyn std::future::Future<Output = Result<tonic::Response<$response>, tonic::Status>>
                        + Send
                        + 'future,
                >,
            >
            where
                'life: 'future,
                Self: 'future,
            {
                Box::pin(std::future::ready(Err(
                    $crate::service::unimplemented::refuse(stringify!($method)),
                )))
            }
        )*
    };
}

pub(super) use not_built;
