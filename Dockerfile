# Build: a virtual environment with the pinned packages and the gateway.
FROM python:3.11-slim AS build
RUN python -m venv /venv
WORKDIR /src
# The packages first: they change less often than the code, so their layer is kept.
COPY requirements.txt ./
RUN /venv/bin/pip install --no-cache-dir -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY engine engine
RUN /venv/bin/pip install --no-cache-dir --no-deps .

# Run: that environment, a user without rights, and one folder it may write to.
FROM python:3.11-slim
RUN useradd --system --no-create-home --uid 10001 headgate \
    && install --directory --owner=headgate --mode=0750 /data
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH
USER headgate
VOLUME /data
EXPOSE 8080
# Recovery of a large journal takes a while: failures count only after the start period.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz')"]
# Without a shell between, so that SIGTERM reaches the gateway and it drains.
CMD ["headgate", "serve", "--host", "0.0.0.0", "--data-dir", "/data"]
