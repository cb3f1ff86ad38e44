package admin

import (
	"testing"

	"loadstone/block/backoffice/backofficetest"
	"loadstone/block/browsertest"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

// An editor's day, on every screen: sign in, find, write, edit, take down, put back.
func TestBrowser(t *testing.T) {
	b := browsertest.Start(t, "--hide-scrollbars")
	for name, screen := range map[string]browsertest.Screen{
		"phone":   {Width: 320, Height: 640},
		"night":   {Width: 390, Height: 844, Dark: true},
		"desktop": {Width: 1280, Height: 900},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			odd := feedtest.Odd(40, 1<<41, 3)
			if err := f.desk.Put(t.Context(), &odd); err != nil {
				t.Fatal(err)
			}
			p := backofficetest.NewPerson(t, b, screen, f.url, name)
			p.Goes("")
			p.Sees("Sign in")
			p.Types("name", "ada")
			p.Types("password", backofficetest.Password)
			p.Presses("Sign in")
			p.Sees("Posts", "ada, editor", "Write a post", "Newest", "Older")
			p.Presses("Older")
			p.Sees("Older", "Newest")

			p.Presses("Posts")
			p.Presses("Write a post")
			p.Sees("New post", "Title", "Text", "Pinned", "Pictures and films", "Author", "Role")
			p.Types("title", "The canteen")
			p.Types("text", "It is open again.\n\nCome and see.")
			p.Types("author", "Noor")
			p.Types("role", "Cook")
			p.Presses("Add a picture or film")
			p.Until("one goes on at the picture", "document.activeElement.id == 'url-1'")
			p.Types("url-1", "javascript:alert(1)")
			p.Types("width-1", "wide")
			p.Presses("Save")
			p.Sees("Nothing is saved yet", "write an https address such as", "write a number of pixels")
			p.Types("url-1", "https://media.example/canteen.jpg")
			p.Types("alt-1", "A pot")
			p.Types("width-1", "800")
			p.Types("height-1", "600")
			p.Presses("Save")
			p.Sees("The canteen", "The post is saved", "Noor, Cook", "It is open again.", "Picture: A pot", "800 × 600", "Comments", "There are none.", "written by ada")
			p.Presses("Edit")
			p.Types("title", "The new canteen")
			p.Presses("Save")
			p.Sees("The new canteen", "edited by ada", "written by ada")
			p.Presses("Take down")
			p.Sees("The post is taken down", "nobody sees it in the feed", "Put back", "taken down by ada")
			p.Presses("Taken down")
			p.Sees("Taken down", "The new canteen", "by ada")
			p.Presses("The new canteen")
			p.Presses("Put back")
			p.Sees("The post is put back", "Edit")
			if page, err := f.desk.Page(t.Context(), feed.Start, 1); err != nil || len(page) != 1 {
				t.Errorf("got %+v and %v", page, err)
			}

			p.Presses("Posts")
			p.Types("q", "noor")
			p.Presses("Find")
			p.Sees(`Posts with "noor"`, "The new canteen")
			p.Types("q", "40")
			p.Presses("Find")
			p.Sees("Åsa", "comment 0", "comment 1", "comment 2")
			p.Presses("Take down comment 2")
			p.Sees("The comment is taken down.", "comment 0", "comment 2", "a comment taken down by ada")
			p.Presses("Changes")
			p.Sees("Changes", "a comment taken down by ada", "put back by ada")
			p.Goes("/nothing")
			p.Sees("That did not work", "There is no such page.")
			p.Presses("Sign out")
			p.Sees("Sign in")
			p.Complains()
		})
	}
}
