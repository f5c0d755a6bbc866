//! The messages and services that OpenShell's processes speak: generated from `proto/`, nothing by hand.
#![allow(missing_docs, unreachable_pub, clippy::all, rust_2018_idioms)]

/// The public API: a wire contract with published clients.
pub mod openshell {
    /// `openshell.v1`.
    pub mod v1 {
        tonic::include_proto!("openshell.v1");
    }
    /// `openshell.datamodel.v1`.
    pub mod datamodel {
        /// Version 1.
        pub mod v1 {
            tonic::include_proto!("openshell.datamodel.v1");
        }
    }
    /// `openshell.sandbox.v1`.
    pub mod sandbox {
        /// Version 1.
        pub mod v1 {
            tonic::include_proto!("openshell.sandbox.v1");
        }
    }
    /// `openshell.supervisor.v1`.
    pub mod supervisor {
        /// Version 1.
        pub mod v1 {
            tonic::include_proto!("openshell.supervisor.v1");
        }
    }
    /// `openshell.link.v1`.
    pub mod link {
        /// Version 1.
        pub mod v1 {
            tonic::include_proto!("openshell.link.v1");
        }
    }
    /// `openshell.plus.v1`.
    pub mod plus {
        /// Version 1.
        pub mod v1 {
            tonic::include_proto!("openshell.plus.v1");
        }
    }
}

pub use openshell::datamodel::v1 as datamodel;
pub use openshell::link::v1 as link;
pub use openshell::plus::v1 as plus;
pub use openshell::sandbox::v1 as policy;
pub use openshell::supervisor::v1 as supervisor;
pub use openshell::v1 as api;
