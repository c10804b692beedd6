// An HTTP server of Go's standard library: server PORT. GET sends a file of the working folder, PUT answers with length and
// SHA-256, POST sends back what comes; a query makes it read with pauses.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path"
	"time"
)

var small = make([]byte, 1024)

func answer(response http.ResponseWriter, request *http.Request) {
	switch {
	case request.Method == "PUT":
		digest, length, piece := sha256.New(), 0, make([]byte, 65536)
		for {
			n, err := request.Body.Read(piece)
			digest.Write(piece[:n])
			length += n
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
			if request.URL.RawQuery != "" {
				time.Sleep(500 * time.Microsecond)
			}
		}
		fmt.Fprintf(response, "%d %x\n", length, digest.Sum(nil))
	case request.Method == "POST":
		content, err := io.ReadAll(request.Body)
		if err == nil {
			response.Write(content)
		}
	case request.URL.Path == "/1k":
		response.Write(small)
	default:
		http.ServeFile(response, request, path.Base(request.URL.Path))
	}
}

func main() {
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], http.HandlerFunc(answer)))
}
