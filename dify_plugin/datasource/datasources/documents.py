"""The data source Documents: browse the documents of the domains like a drive, and download them."""

from __future__ import annotations

from collections.abc import Generator

from dify_plugin.entities.datasource import (
    DatasourceMessage,
    OnlineDriveBrowseFilesRequest,
    OnlineDriveBrowseFilesResponse,
    OnlineDriveDownloadFileRequest,
)
from dify_plugin.interfaces.datasource.online_drive import OnlineDriveDatasource
from plugin_runtime import called


class DocumentsDatasource(OnlineDriveDatasource):
    """Buckets are domains, folders are sources, files are documents."""

    def _browse_files(self, request: OnlineDriveBrowseFilesRequest) -> OnlineDriveBrowseFilesResponse:
        listed = called(self.runtime.credentials, "browse", request.model_dump(), self.runtime.user_id)
        return OnlineDriveBrowseFilesResponse.model_validate(listed.json)

    def _download_file(self, request: OnlineDriveDownloadFileRequest) -> Generator[DatasourceMessage, None, None]:
        file = called(self.runtime.credentials, "download", request.model_dump(), self.runtime.user_id)
        yield self.create_blob_message(file.text.encode(), meta=dict(file.json))
