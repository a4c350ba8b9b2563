# Console: built with Node, which is in no other stage.
FROM node:22-slim AS console
WORKDIR /src/console
COPY console/package.json console/package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
WORKDIR /src
COPY openapi openapi
COPY clients/typescript clients/typescript
COPY console console
RUN cd console && npm run types && npm run build && npm run clients

# Build: a virtual environment with the pinned packages and the gateway.
FROM python:3.11-slim AS build
RUN python -m venv /venv
WORKDIR /src
# The packages first: they change less often than the code, so their layer is kept.
# Their versions are pinned; hashes are not, as an index may serve wheels of its own making.
COPY requirements.txt ./
RUN /venv/bin/pip install --no-cache-dir -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY app app
COPY clients/python clients/python
COPY engine engine
COPY pipeline pipeline
COPY console/bundle.py console/wheel_hook.py console/
COPY --from=console /src/app/console app/console
COPY --from=console /src/app/clients app/clients
RUN /venv/bin/pip install --no-cache-dir --no-deps . \
    && /venv/bin/pip uninstall --yes setuptools pip

# Run: that environment, a user without rights, and one folder it may write to.
FROM python:3.11-slim
LABEL org.opencontainers.image.title="Headgate" \
      org.opencontainers.image.description="A streaming gateway: Redis Streams semantics over HTTP, Server-Sent Events and WebSocket." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# By number, so that whoever runs it can see that it is not root. /keys is for keys that gateways
# share, /bucket for a bucket that is a volume.
RUN install --directory --owner=10001 --group=10001 --mode=0750 /data /keys /bucket
COPY --from=build /venv /venv
# Settings as variables: they can be overridden one by one, as can the command.
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HEADGATE_HOST=0.0.0.0 \
    HEADGATE_FIRST_KEY=true \
    HEADGATE_DATA_DIR=/data
USER 10001:10001
VOLUME /data
EXPOSE 8080
# Recovery of a large journal takes a while: failures count only after the start period.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["headgate", "health"]
# Without a shell between, so that SIGTERM reaches the gateway and it answers who waits.
STOPSIGNAL SIGTERM
ENTRYPOINT ["headgate"]
CMD ["serve"]
