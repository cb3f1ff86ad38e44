package packets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ring's size: it takes in what comes in about a tenth of a second at 200,000
// segments a second, and has more blocks than the kernel hands on meanwhile for being old.
// Only what is read in time is seen.
const (
	blockSize = 128 << 10
	blocks    = 32
	frameSize = 2048 // of no meaning in this version of the ring; it has to divide blockSize
)

// ring is a packet socket whose packets the kernel writes into memory that both share
// (TPACKET_V3, Documentation/networking/packet_mmap.rst). It belongs to one goroutine.
type ring struct {
	fd     int
	lo     int // index of the interface
	memory []byte
	next   int // block
	pause  time.Duration
	clock  func() time.Time // the time of day, by which packets are stamped
}

// open is a ring for the loopback interface, which receives nothing as yet.
func open() (r *ring, err error) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find the loopback interface: %w", err)
	}
	// Without a protocol nothing is received before it is bound, so nothing is
	// unfiltered.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	filter, err := program()
	if err != nil {
		return nil, fmt.Errorf("make a filter of packets: %w", err)
	}
	if err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3),
		unix.SetsockoptTpacketReq3(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq3{
			Block_size: blockSize, Block_nr: blocks, Frame_size: frameSize, Frame_nr: blocks * blockSize / frameSize,
			Retire_blk_tov: uint32(retire.Milliseconds()),
		}),
	); err != nil {
		return nil, fmt.Errorf("prepare a packet socket: %w", err)
	}
	// Not to be shown what goes out saves a copy of each packet. Kernels before 4.20
	// cannot, and the filter leaves it out all the same.
	_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	memory, err := unix.Mmap(fd, 0, blocks*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the ring of packets: %w", err)
	}
	return &ring{fd: fd, lo: loopback.Index, memory: memory, clock: time.Now}, nil
}

// receive has the kernel fill the ring from now on, and rest with nothing more, so that
// packets cost nothing meanwhile: by asking for a protocol of which there are none, which is
// for local experiments. The ring stays: to make one takes the kernel milliseconds.
func (r *ring) receive() error { return r.bind(unix.ETH_P_IP) }
func (r *ring) rest() error    { return r.bind(unix.ETH_P_802_EX1) }

func (r *ring) bind(protocol uint16) error {
	address := &unix.SockaddrLinklayer{Protocol: networkOrder(protocol), Ifindex: r.lo}
	if err := unix.Bind(r.fd, address); err != nil {
		return fmt.Errorf("bind a packet socket: %w", err)
	}
	return nil
}

// networkOrder is a 16-bit number as the kernel takes it from memory in network order.
func networkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func (r *ring) close() error { return errors.Join(unix.Munmap(r.memory), unix.Close(r.fd)) }

// isSet says whether the clock was set since began, or has been slowed down or sped up by as much as
// matters. Slices are told apart by time of day, as packets have it.
func (r *ring) isSet(began time.Time) bool {
	least := time.Since(began) // by a clock that nobody sets
	day := r.clock().Sub(began.Round(0))
	most := time.Since(began) // this may have had to wait for a core
	return day < least-retire || day > most+retire
}

// lost is how many packets the ring had no room for since it was asked last.
func (r *ring) lost() uint64 {
	s, err := unix.GetsockoptTpacketStatsV3(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return uint64(s.Drops)
}

// The pauses between looks at the ring: long ones cost less, because the runtime's monitor
// wakes up often for a while after each, and are possible where little comes in.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = 100 * time.Millisecond
	fewBlocks  = blocks / 8
)

// until hands on packets in the order in which they came, all of those before end and
// some after it, or until ctx ends.
func (r *ring) until(ctx context.Context, end time.Time, add func(packet)) {
	for over := end.Add(settles); ; {
		left := time.Until(over) // looked at before reading: once it is over, one more reading has all that came before
		n := 0
		for r.block(add) {
			n++
		}
		if left <= 0 || ctx.Err() != nil {
			return
		}
		if r.pause *= 2; n > fewBlocks {
			r.pause = 0
		}
		r.pause = min(max(r.pause, leastPause), mostPause)
		select {
		case <-time.After(min(left, r.pause)):
		case <-ctx.Done():
		}
	}
}

// block hands on the next block, if the kernel is done with it, and gives it back.
func (r *ring) block(add func(packet)) bool {
	memory := r.memory[r.next*blockSize : (r.next+1)*blockSize]
	description := (*unix.TpacketBlockDesc)(unsafe.Pointer(&memory[0])) //nolint:gosec // the kernel lays its blocks out so
	head := (*unix.TpacketHdrV1)(unsafe.Pointer(&description.Hdr[0]))   //nolint:gosec // the union has only this
	if atomic.LoadUint32(&head.Block_status)&unix.TP_STATUS_USER == 0 {
		return false
	}
	at := int(head.Offset_to_first_pkt)
	for range head.Num_pkts {
		if at < 0 || at+unix.SizeofTpacket3Hdr > len(memory) {
			break
		}
		h := (*unix.Tpacket3Hdr)(unsafe.Pointer(&memory[at])) //nolint:gosec // at was checked
		from, to := at+int(h.Net), at+int(h.Net)+int(h.Snaplen)
		if to <= len(memory) {
			if p, ok := parse(memory[from:to]); ok {
				p.at = int64(h.Sec)*int64(time.Second) + int64(h.Nsec)
				add(p)
			}
		}
		at += int(h.Next_offset)
	}
	atomic.StoreUint32(&head.Block_status, unix.TP_STATUS_KERNEL)
	r.next = (r.next + 1) % blocks
	return true
}
