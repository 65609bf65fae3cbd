# One image for every process of docker-compose.yml; the command says which.
FROM python:3.11-slim-bookworm

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1
WORKDIR /app

# CPU wheels of torch: without the extra index pip would take a CUDA build of several GB.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY requirements.lock .
RUN pip install --extra-index-url "$TORCH_INDEX" -r requirements.lock

COPY manage.py ./
COPY contextgraph contextgraph
COPY memory memory
COPY scoring scoring
COPY prompts prompts

RUN useradd --system --create-home --home-dir /var/lib/contextgraph contextgraph
ENV CONTEXTGRAPH_STATE_DIR=/var/lib/contextgraph/state
USER contextgraph

# SIGQUIT lets a worker finish or hand back what it holds before it stops.
ENV REMAP_SIGTERM=SIGQUIT
EXPOSE 8765
CMD ["python", "manage.py", "serve"]
