# CPU by default. With a GPU: docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 .
FROM python:3.11-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev libgl1 libglib2.0-0 && rm -rf /var/lib/apt/lists/*
WORKDIR /sacbbf
RUN pip install --no-cache-dir torch --index-url ${TORCH_INDEX}
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir ".[minatar,video]"
VOLUME /runs
WORKDIR /
ENTRYPOINT ["sacbbf"]
CMD ["--help"]
