//! [`Engine`] on the API: one request for each call.

use std::time::Duration;

use bollard::Docker;
use bollard::auth::DockerCredentials;
use bollard::container::AttachContainerResults;
use bollard::errors::Error;
use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{
    AttachContainerOptions, ContainerArchiveInfoOptions, CreateContainerOptions,
    CreateImageOptions, DownloadFromContainerOptions, EventsOptions, ImportImageOptions,
    KillContainerOptions, ListVolumesOptions, RemoveContainerOptions, RemoveVolumeOptions,
    StartContainerOptions, StopContainerOptions, UploadToContainerOptions, WaitContainerOptions,
};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use openshell_core::engine::Sockets;
use openshell_core::{ContainerId, Timestamp};
use openshell_lifecycle::driver::ByteStream;
use tokio::io::AsyncWriteExt;

use super::client::{Client, QUERY};
use super::dialect::Dialect;
use super::{convert, raw};
use crate::auth::Credentials;
use crate::engine::{
    ContainerFacts, ContainerSummary, Engine, EngineError, EngineErrorKind, EngineFacts,
    EventStream, FileFacts, ImageFacts, Labels, PullStream, VolumeFacts,
};
use crate::plan::ContainerPlan;

/// A removal that is under way elsewhere is waited for this long.
const REMOVAL: Duration = Duration::from_secs(60);
/// What the engine may need beyond the grace to end a container.
const STOP_MARGIN: Duration = Duration::from_secs(60);

/// An engine that speaks the API.
pub struct ApiEngine {
    client: std::sync::Arc<Client>,
}

impl ApiEngine {
    /// Names the engine. Nothing is connected before the first call.
    pub fn new(sockets: Sockets, dialect: impl Dialect) -> Self {
        Self {
            client: std::sync::Arc::new(Client::new(sockets, Box::new(dialect))),
        }
    }

    /// Where it is, or would be.
    pub fn socket(&self) -> &std::path::Path {
        self.client.socket()
    }

    fn done<T>(&self, outcome: Result<T, Error>) -> Result<T, EngineError> {
        outcome.map_err(|e| self.client.failed(&e))
    }

    /// `None` for what does not exist.
    fn found<T>(&self, outcome: Result<T, Error>) -> Result<Option<T>, EngineError> {
        absent_is(self.done(outcome.map(Some)), None)
    }

    async fn await_removal(&self, docker: Docker, id: &ContainerId) -> Result<(), EngineError> {
        let options = WaitContainerOptions {
            condition: "removed".to_owned(),
        };
        let mut answers = docker
            .with_timeout(REMOVAL)
            .wait_container(&id.0, Some(options));
        match tokio::time::timeout(REMOVAL, answers.next()).await {
            Ok(Some(Err(e))) if !is_exit(&e) => absent_is(Err(self.client.failed(&e)), ()),
            Ok(_) => Ok(()),
            Err(_) => Err(EngineError::new(
                EngineErrorKind::Conflict,
                format!(
                    "the removal of container {} has not ended within {} s",
                    id.short(),
                    REMOVAL.as_secs()
                ),
            )),
        }
    }
}

/// Takes "there is no such thing" for an answer.
fn absent_is<T>(outcome: Result<T, EngineError>, absent: T) -> Result<T, EngineError> {
    match outcome {
        Err(e) if e.kind == EngineErrorKind::NotFound => Ok(absent),
        other => other,
    }
}

/// bollard reports a process that ended with a status other than zero as an error.
const fn is_exit(error: &Error) -> bool {
    matches!(error, Error::DockerContainerWaitError { .. })
}

fn body(tar: ByteStream) -> impl futures_util::Stream<Item = Result<Bytes, std::io::Error>> {
    tar.map_err(std::io::Error::other)
}

impl Engine for ApiEngine {
    type Input = AttachContainerResults;

    fn name(&self) -> &'static str {
        self.client.dialect().manner().name
    }

    fn fills_volumes(&self) -> bool {
        self.client.dialect().manner().fills_volumes
    }

    fn tells_resolver(&self) -> bool {
        self.client.dialect().manner().tells_resolver
    }

    async fn facts(&self) -> Result<EngineFacts, EngineError> {
        let docker = self.client.query().await?;
        let info = self.done(docker.info().await)?;
        convert::facts(
            self.client.dialect(),
            info,
            docker.client_version().to_string(),
        )
    }

    async fn ping(&self) -> Result<(), EngineError> {
        let docker = self.client.query().await?;
        self.done(docker.ping().await.map(drop))
    }

    async fn create_container(&self, plan: &ContainerPlan) -> Result<ContainerId, EngineError> {
        let options = CreateContainerOptions {
            name: Some(plan.name.clone()),
            platform: String::new(),
        };
        let docker = self.client.action().await?;
        let body = self
            .client
            .dialect()
            .create(plan, convert::create_body(plan));
        let made = docker.create_container(Some(options), body).await;
        let made = self.done(made)?;
        for warning in &made.warnings {
            tracing::warn!(
                container = plan.name,
                warning,
                "a container was made with a warning"
            );
        }
        Ok(ContainerId(made.id))
    }

    async fn attach_input(
        &self,
        id: &ContainerId,
        bytes: Bytes,
    ) -> Result<AttachContainerResults, EngineError> {
        let options = AttachContainerOptions {
            stream: true,
            stdin: true,
            stdout: true,
            ..AttachContainerOptions::default()
        };
        let docker = self.client.query().await?;
        let attached = docker.attach_container(&id.0, Some(options)).await;
        let mut attached = self.done(attached)?;
        let written = async {
            attached.input.write_all(&bytes).await?;
            attached.input.shutdown().await
        };
        let written = written.await;
        self.done(written.map_err(Error::from))?;
        Ok(attached)
    }

    async fn first_word(&self, input: &mut AttachContainerResults) -> Result<bool, EngineError> {
        Ok(self.done(input.output.next().await.transpose())?.is_some())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), EngineError> {
        let docker = self.client.action().await?;
        self.done(
            docker
                .start_container(&id.0, None::<StartContainerOptions>)
                .await,
        )
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let options = StopContainerOptions {
            signal: None,
            t: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
        };
        let docker = self
            .client
            .with_timeout(grace.saturating_add(STOP_MARGIN))
            .await?;
        self.done(docker.stop_container(&id.0, Some(options)).await)
    }

    async fn kill_container(&self, id: &ContainerId) -> Result<(), EngineError> {
        let options = KillContainerOptions {
            signal: "SIGKILL".to_owned(),
        };
        let docker = self.client.action().await?;
        match self.done(docker.kill_container(&id.0, Some(options)).await) {
            // It does not run.
            Err(e) if e.kind == EngineErrorKind::Conflict => Ok(()),
            other => other,
        }
    }

    async fn inspect_container(
        &self,
        id_or_name: &str,
    ) -> Result<Option<ContainerFacts>, EngineError> {
        // Who answers is known from the negotiation.
        self.client.query().await?;
        let path = format!("/containers/{}/json", raw::escaped(id_or_name));
        let asked = raw::ask(&self.client, &path, QUERY).await;
        Ok(absent_is(asked.map(Some), None)?.map(convert::container))
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), EngineError> {
        let options = RemoveContainerOptions {
            v: true,
            force: true,
            link: false,
        };
        if self.client.dialect().manner().removal_is_gentle {
            absent_is(self.kill_container(id).await, ())?;
        }
        let docker = self.client.action().await?;
        let outcome = self.done(docker.remove_container(&id.0, Some(options)).await);
        match absent_is(outcome, ()) {
            // Somebody else is removing it.
            Err(e) if e.kind == EngineErrorKind::Conflict => self.await_removal(docker, id).await,
            other => other,
        }
    }

    async fn list_containers(&self, labels: &Labels) -> Result<Vec<ContainerSummary>, EngineError> {
        self.client.query().await?;
        let filters = serde_json::to_string(&convert::label_filter(labels))
            .map_err(|e| EngineError::new(EngineErrorKind::Invalid, e.to_string()))?;
        let path = format!(
            "/containers/json?all=true&filters={}",
            raw::escaped(&filters)
        );
        let listed: Vec<convert::Listed> = raw::ask(&self.client, &path, QUERY).await?;
        let listed = listed.into_iter().map(convert::summary);
        Ok(listed
            .filter(|one| convert::carries(&one.labels, labels))
            .collect())
    }

    async fn wait_container(&self, id: &ContainerId) -> Result<(), EngineError> {
        let options = WaitContainerOptions {
            condition: "not-running".to_owned(),
        };
        let docker = self.client.endless().await?;
        match docker.wait_container(&id.0, Some(options)).next().await {
            Some(Ok(_)) => Ok(()),
            Some(Err(e)) if is_exit(&e) => Ok(()),
            Some(Err(e)) => Err(self.client.failed(&e)),
            None => Err(EngineError::new(
                EngineErrorKind::Unreachable,
                "the engine ended a wait without an answer",
            )),
        }
    }

    async fn stat(&self, id: &ContainerId, path: &str) -> Result<Option<FileFacts>, EngineError> {
        let options = ContainerArchiveInfoOptions {
            path: path.to_owned(),
        };
        let docker = self.client.query().await?;
        let answer = docker
            .get_container_archive_info(&id.0, Some(options))
            .await;
        Ok(self.found(answer)?.and_then(convert::file))
    }

    async fn put_archive(
        &self,
        id: &ContainerId,
        directory: &str,
        tar: ByteStream,
    ) -> Result<(), EngineError> {
        let options = UploadToContainerOptions {
            path: directory.to_owned(),
            no_overwrite_dir_non_dir: Some("true".to_owned()),
            copy_uidgid: None,
        };
        let docker = self.client.endless().await?;
        let body = bollard::body_try_stream(body(tar));
        self.done(docker.upload_to_container(&id.0, Some(options), body).await)
    }

    async fn get_archive(&self, id: &ContainerId, path: &str) -> Result<ByteStream, EngineError> {
        let options = DownloadFromContainerOptions {
            path: path.to_owned(),
        };
        let docker = self.client.endless().await?;
        let mut chunks = Box::pin(docker.download_from_container(&id.0, Some(options)));
        // The first piece tells whether there is anything at all.
        let first = match chunks.next().await {
            Some(first) => Some(Ok(self.done(first)?)),
            None => None,
        };
        let client = std::sync::Arc::clone(&self.client);
        let rest = chunks.map_err(move |e| client.failed(&e).doing("reading an archive"));
        Ok(Box::pin(stream::iter(first).chain(rest)))
    }

    async fn inspect_image(&self, reference: &str) -> Result<Option<ImageFacts>, EngineError> {
        let docker = self.client.query().await?;
        self.found(docker.inspect_image(reference).await)?
            .map(convert::image)
            .transpose()
    }

    fn pull_image(&self, reference: &str, credentials: Option<Credentials>) -> PullStream {
        let options = CreateImageOptions {
            from_image: Some(reference.to_owned()),
            ..CreateImageOptions::default()
        };
        let credentials = credentials.map(|c| DockerCredentials {
            username: Some(c.username),
            password: Some(c.password),
            identitytoken: c.identity_token,
            serveraddress: Some(c.registry),
            ..DockerCredentials::default()
        });
        let client = std::sync::Arc::clone(&self.client);
        let messages = async move {
            let docker = client.endless().await?;
            let messages = docker.create_image(Some(options), None, credentials);
            Ok(messages
                .map_ok(convert::pull_message)
                .map_err(move |e| client.failed(&e)))
        };
        Box::pin(stream::once(messages).try_flatten())
    }

    async fn load_image(&self, tar: ByteStream) -> Result<(), EngineError> {
        let options = ImportImageOptions {
            quiet: true,
            ..ImportImageOptions::default()
        };
        let docker = self.client.action().await?;
        let answers = docker.import_image(options, bollard::body_try_stream(body(tar)), None);
        self.done(answers.try_for_each(|_| async { Ok(()) }).await)
    }

    async fn create_volume(&self, name: &str, labels: &Labels) -> Result<VolumeFacts, EngineError> {
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            labels: Some(convert::hash(labels)),
            ..VolumeCreateRequest::default()
        };
        let docker = self.client.action().await?;
        self.done(docker.create_volume(request).await)
            .map(convert::volume)
    }

    async fn inspect_volume(&self, name: &str) -> Result<Option<VolumeFacts>, EngineError> {
        let docker = self.client.query().await?;
        Ok(self
            .found(docker.inspect_volume(name).await)?
            .map(convert::volume))
    }

    async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        let docker = self.client.action().await?;
        let outcome = docker
            .remove_volume(name, None::<RemoveVolumeOptions>)
            .await;
        absent_is(self.done(outcome), ())
    }

    async fn list_volumes(&self, labels: &Labels) -> Result<Vec<VolumeFacts>, EngineError> {
        let options = ListVolumesOptions {
            filters: Some(convert::label_filter(labels)),
        };
        let docker = self.client.query().await?;
        let listed = self.done(docker.list_volumes(Some(options)).await)?;
        Ok(listed
            .volumes
            .unwrap_or_default()
            .into_iter()
            .map(convert::volume)
            .filter(|one| convert::carries(&one.labels, labels))
            .collect())
    }

    async fn events(&self, labels: &Labels, since: Timestamp) -> Result<EventStream, EngineError> {
        let mut filters = convert::label_filter(labels);
        filters.insert("type".to_owned(), vec!["container".to_owned()]);
        filters.insert(
            "event".to_owned(),
            convert::EVENTS.map(str::to_owned).to_vec(),
        );
        let options = EventsOptions {
            since: Some(format!(
                "{}.{:09}",
                since.as_second(),
                since.subsec_nanosecond()
            )),
            until: None,
            filters: Some(filters),
        };
        let client = std::sync::Arc::clone(&self.client);
        let docker = client.endless().await?;
        let events = docker.events(Some(options)).filter_map(move |message| {
            let event = match message {
                Ok(message) => convert::event(message).map(Ok),
                Err(e) => Some(Err(client.failed(&e))),
            };
            std::future::ready(event)
        });
        Ok(Box::pin(events))
    }
}
