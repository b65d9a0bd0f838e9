# The S3 server, built as `make test-cluster` builds it.
FROM golang:1.26.8-bookworm AS build
RUN CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

FROM debian:12.11-slim
RUN useradd --uid 1000 --create-home s3 && install --directory --owner=s3 --group=s3 /buckets
COPY --from=build /go/bin/versitygw /usr/local/bin/versitygw
USER s3
