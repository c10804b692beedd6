// GET sends a file of the working folder, PUT answers with length and SHA-256, POST sends back what comes, as it comes.
// ?slow reads with pauses.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const http = require("http");
const path = require("path");

const small = Buffer.alloc(1024, "x");

function receive(request, response) {
  const digest = crypto.createHash("sha256");
  let length = 0;
  request.on("data", (piece) => {
    digest.update(piece);
    length += piece.length;
    if (request.url.includes("?slow")) {
      request.pause();
      setTimeout(() => request.resume(), 1);
    }
  });
  request.on("end", () => response.end(`${length} ${digest.digest("hex")}\n`));
}

http
  .createServer((request, response) => {
    if (request.method === "PUT") return receive(request, response);
    if (request.method === "POST") return request.pipe(response);
    if (request.url === "/1k") return response.end(small);
    const file = path.basename(request.url.split("?")[0]);
    fs.createReadStream(file).pipe(response);
  })
  .listen(Number(process.argv[2]), "127.0.0.1");
