# An image that has nothing but the shim and a command to copy it: for pods whose own images stay as they are (pod.yaml).
#
#     docker build -f examples/containers/shim.Dockerfile -t dp-shim:0.1.0 .
FROM debian:bookworm-slim
COPY target/release/libdp_preload.so /usr/lib/dp/libdp_preload.so
# A new file takes the name, so that programs which have the former one mapped keep it.
CMD ["sh", "-c", "cp /usr/lib/dp/libdp_preload.so /dp/.new && mv /dp/.new /dp/libdp_preload.so"]
