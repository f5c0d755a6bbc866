//! `GetSandboxLogs`: the last lines that are kept in memory.

use openshell_lifecycle::LifecycleFence;
use openshell_proto::api;
use tonic::Status;

use super::Inner;
use crate::convert::logs::{Filter, line};
use crate::session::LOG_LINES;

impl<F: LifecycleFence> Inner<F> {
    pub(super) fn sandbox_logs(
        &self,
        request: api::GetSandboxLogsRequest,
    ) -> Result<api::GetSandboxLogsResponse, Status> {
        let filter = Filter::parse(
            request.since_time.as_ref(),
            request.sources,
            &request.min_level,
        )?;
        let record = self.find(request.workspace_scope, "sandbox", &request.sandbox)?;
        let id = record.meta.id;
        let (kept, total) = self.hub.logs(id, LOG_LINES);
        let mut wanted: Vec<_> = kept.into_iter().filter(|l| filter.wants(l)).collect();
        let count = match request.lines as usize {
            0 => wanted.len(),
            n => n.min(wanted.len()),
        };
        let last = wanted.split_off(wanted.len() - count);
        Ok(api::GetSandboxLogsResponse {
            logs: last.into_iter().map(|l| line(id, l)).collect(),
            buffer_total: u32::try_from(total).unwrap_or(u32::MAX),
        })
    }
}
