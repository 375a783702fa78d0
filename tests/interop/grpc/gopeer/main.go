// SPDX-License-Identifier: Apache-2.0

// grpc-go's end of the gRPC tests: gopeer serve|call SOCKET. The methods are those of ../methods.h.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// raw carries messages as they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}
func (raw) Name() string { return "proto" }

func handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	switch strings.TrimPrefix(method, "/test.Peer/") {
	case "Echo":
		md, _ := metadata.FromIncomingContext(stream.Context())
		for _, value := range md.Get("x-in") {
			if err := stream.SetHeader(metadata.Pairs("x-head", value)); err != nil {
				return err
			}
			stream.SetTrailer(metadata.Pairs("x-tail", value))
		}
		return stream.SendMsg(&request)
	case "Fail":
		return status.Error(codes.NotFound, string(request))
	case "Count":
		n, err := strconv.Atoi(string(request))
		for i := 0; err == nil && i < n; i++ {
			message := []byte(fmt.Sprintf("%d ", i))
			message = append(message, bytes.Repeat([]byte("."), 1000-len(message))...)
			err = stream.SendMsg(&message)
		}
		return err
	case "Large":
		n, err := strconv.Atoi(string(request))
		if err != nil {
			return err
		}
		message := bytes.Repeat([]byte("L"), n)
		return stream.SendMsg(&message)
	case "Hang":
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return status.Error(codes.Unimplemented, "unknown method "+method)
}

func serve(path string) {
	listener, err := net.Listen("unix", path)
	check(err == nil, "listen: %v", err)
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(handle),
		grpc.MaxRecvMsgSize(16<<20))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { _ = server.Serve(listener) }()
	fmt.Println("serving")
	<-ctx.Done()
	server.Stop()
}

func check(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, "FAIL "+format+"\n", args...)
		os.Exit(1)
	}
}

type caller struct{ conn *grpc.ClientConn }

func (c caller) unary(method, message string, timeout time.Duration, options ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-in", "value")
	in, out := []byte(message), []byte{}
	err := c.conn.Invoke(ctx, "/test.Peer/"+method, &in, &out, options...)
	return string(out), err
}

func (c caller) fails(want codes.Code, method, message string, timeout time.Duration, options ...grpc.CallOption) string {
	_, err := c.unary(method, message, timeout, options...)
	check(status.Code(err) == want, "%s: %v, want %v", method, err, want)
	return status.Convert(err).Message()
}

func (c caller) count(n int, stopAfter int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Peer/Count")
	check(err == nil, "Count: %v", err)
	message := []byte(strconv.Itoa(n))
	check(stream.SendMsg(&message) == nil && stream.CloseSend() == nil, "Count: cannot send")
	for i := 0; ; i++ {
		if i == stopAfter {
			return
		}
		err := stream.RecvMsg(&message)
		if err == io.EOF {
			check(i == n, "Count: %d of %d", i, n)
			return
		}
		check(err == nil && strings.HasPrefix(string(message), fmt.Sprintf("%d ", i)), "Count: %d: %v", i, err)
	}
}

func call(path string) {
	const patience = time.Minute
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(16<<20)))
	check(err == nil, "dial: %v", err)
	c := caller{conn}
	var head, tail metadata.MD
	out, err := c.unary("Echo", "hello", patience, grpc.Header(&head), grpc.Trailer(&tail))
	check(err == nil && out == "hello", "Echo: %q %v", out, err)
	check(len(head.Get("x-head")) == 1 && head.Get("x-head")[0] == "value", "header: %v", head)
	check(len(tail.Get("x-tail")) == 1 && tail.Get("x-tail")[0] == "value", "trailer: %v", tail)
	big := strings.Repeat("b", 16<<20)
	out, err = c.unary("Echo", big, patience)
	check(err == nil && out == big, "16 MiB: %v", err)
	c.fails(codes.ResourceExhausted, "Echo", big+"b", patience)
	text := "50% é\n!"
	check(c.fails(codes.NotFound, "Fail", text, patience) == text, "Fail: other text")
	c.fails(codes.DeadlineExceeded, "Hang", "", 100*time.Millisecond)
	c.fails(codes.Unimplemented, "Nothing", "", patience)
	c.fails(codes.Unimplemented, "Echo", "compressed", patience, grpc.UseCompressor(gzip.Name))
	c.count(20000, -1)
	c.count(100000000, 10)
	done := make(chan error)
	for i := range 1000 {
		go func() {
			out, err := c.unary("Echo", strconv.Itoa(i), patience)
			if err == nil && out != strconv.Itoa(i) {
				err = fmt.Errorf("%q is not %d", out, i)
			}
			done <- err
		}()
	}
	for range 1000 {
		err := <-done
		check(err == nil, "Echo of many: %v", err)
	}
	check(conn.Close() == nil, "close")
}

func main() {
	check(len(os.Args) == 3, "gopeer serve|call SOCKET")
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	} else {
		call(os.Args[2])
	}
}
